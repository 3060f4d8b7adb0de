# ConvNeXt-T (Liu et al., CVPR 2022), frozen: a linear layer on its pooled activations learns.
# Images are padded to a multiple of 32. Weights: model.weights=convnext_tiny_1k_224_ema.pth of
# Meta's ConvNeXt, or timm's convnext_tiny (docs/encoders.md); without a file they are random.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "train_dataloader.dataset.type": {
        "gray, or text": ["MNISTDataset", "FEMNISTDataset", "ShakespeareDataset"],
    },
}

model = dict(
    type="TimmClassifier",
    encoder="convnext_tiny",
    pretrained="ImageNet",
    freeze="backbone",
    groups=None,  # of the network that it replaces
)
