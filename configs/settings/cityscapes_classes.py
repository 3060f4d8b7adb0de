# Cityscapes with eight clients a class, 152 in all, each of which knows that class only.
_base_ = ["../_base_/classes.py"]

__data = dict(type="CityscapesDataset", data_root="data/cityscapes")

model = dict(num_classes=19)
train_dataloader = dict(
    dataset=dict(
        split="splits/heterogeneous/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024)),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
    partition=dict(type="ClassHeterogeneous", clients_per_class=8),
)
val_dataloader = dict(
    test=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(
            split="splits/heterogeneous/test", users="test_user", test_mode=True, **__data
        ),
    ),
)
test_dataloader = val_dataloader
param_scheduler = [dict(type="MultiStepLR", milestones=[1000], gamma=0.1)]
train_cfg = dict(max_rounds=1500)
