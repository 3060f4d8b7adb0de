# FedDrive's, on every BatchNorm layer.
slot = "batchnorm"
refuses = {
    "model.type": {
        "no BatchNorm": [
            *("CNN", "MNISTCNN", "FEMNISTCNN", "MobileNetV2GN", "ResNet18GN", "ResNet20GN")
        ],
    },
}

append = {"personal": ["@batchnorm.statistics"]}
