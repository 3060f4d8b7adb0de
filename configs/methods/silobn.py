# FedDrive's, on every BatchNorm layer.
slot = "batchnorm"
refuses = {
    "model.type": ["CNN", "MNISTCNN", "MobileNetV2GN", "ResNet18GN", "ResNet20GN"],  # no BatchNorm
}

batchnorm = dict(type="SiloBN")
