# DINOv2 ViT-S/14 (Oquab et al., TMLR 2024), frozen: a linear layer on its class token learns.
# Images are padded to a multiple of 14. Weights: model.weights=dinov2_vits14_pretrain.pth of Meta's
# DINOv2, or timm's vit_small_patch14_dinov2 (docs/encoders.md); without a file they are random.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "train_dataloader.dataset.type": {
        "gray, or text": ["MNISTDataset", "FEMNISTDataset", "ShakespeareDataset"],
    },
}

model = dict(
    type="TimmClassifier",
    encoder="vit_small_patch14_dinov2",
    options=dict(dynamic_img_size=True),
    pretrained="DINOv2",
    freeze="backbone",
    groups=None,  # of the network that it replaces
)
