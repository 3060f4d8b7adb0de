# ResNet-18 for 32x32 images, GroupNorm with 2 groups in place of BatchNorm; the setting's schedule.
slot = "network"
refuses = {
    "val_evaluator.type": ["IoUMetric", "DiceMetric", "BoundaryIoU"],  # for classification
    # other images, or text
    "train_dataloader.dataset.type": [
        *("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset", "LandmarksDataset"),
    ],
}

model = dict(type="ResNet18GN", groups=2)
