# Cityscapes with 19 classes, as in FedDrive; the settings choose the split.
_base_ = "feddrive.py"

model = dict(
    data_preprocessor=dict(mean=[0.3257, 0.3690, 0.3223], std=[0.2112, 0.2148, 0.2115]),
)
train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    dataset=dict(
        type="CityscapesDataset",
        data_root="data/cityscapes",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024)),
            dict(type="ColorJitter", brightness=0.4, contrast=0.4, saturation=0.4, hue=0.0, p=1.0),
        ],
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    test=dict(
        batch_size=4,
        num_workers=2,
        dataset=dict(
            type="CityscapesDataset",
            data_root="data/cityscapes",
            users="test_user",
            test_mode=True,
        ),
    ),
)
test_dataloader = val_dataloader
