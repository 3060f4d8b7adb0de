# ResNet-20 for 32x32 images, GroupNorm with 2 groups in place of BatchNorm; the setting's schedule.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "train_dataloader.dataset.type": {
        "other images, or text": [
            *("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset", "LandmarksDataset")
        ],
    },
}

model = dict(type="ResNet20GN", groups=2)
