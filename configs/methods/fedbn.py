# No paper here has published values of it; it has none to choose.
slot = "batchnorm"
refuses = {
    "model.type": ["CNN", "MNISTCNN", "MobileNetV2GN", "ResNet18GN", "ResNet20GN"],  # no BatchNorm
}

batchnorm = dict(type="FedBN")
