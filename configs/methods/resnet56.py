# ResNet-56 of bottleneck blocks for 32x32 images, with BatchNorm, as FedAlign uses it. Where no
# paper trains it, the schedule is the setting's.
slot = "network"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "train_dataloader.dataset.type": {
        "other images, or text": [
            *("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset", "LandmarksDataset")
        ],
    },
}

model = dict(type="ResNet56")
