# No paper here has published values of it; it has none to choose.
slot = "batchnorm"
refuses = {
    "model.type": {
        "no BatchNorm": [
            *("CNN", "MNISTCNN", "FEMNISTCNN", "MobileNetV2GN", "ResNet18GN", "ResNet20GN")
        ],
    },
}

append = {"personal": ["@batchnorm"]}
