# ResNet-56 of bottleneck blocks for 32x32 images, with BatchNorm, as FedAlign uses it. Where no
# paper trains it, the schedule is the setting's.
slot = "network"
refuses = {
    "val_evaluator.type": ["IoUMetric", "DiceMetric", "BoundaryIoU"],  # for classification
    # other images, or text
    "train_dataloader.dataset.type": [
        *("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset", "LandmarksDataset"),
    ],
}

model = dict(type="ResNet56")
