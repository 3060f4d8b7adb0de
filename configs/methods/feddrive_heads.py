# BiSeNetV2 as in FedDrive, where a setting has MMSegmentation's: heads that end in PixelShuffle.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for segmentation": "Accuracy"},
    "model.network.type": "EncoderDecoder",  # a setting's own network
}

model = dict(type="FedDriveBiSeNetV2Segmentor")
