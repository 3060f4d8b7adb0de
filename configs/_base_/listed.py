# What settings of published label maps share: Cityscapes' optimizer and methods, BiSeNetV2 with
# MMSegmentation's heads. Splits, clients and rounds are this suite's own (docs/data_sets.md).
_base_ = "feddrive.py"

model = dict(type="BiSeNetV2Segmentor", num_classes=19)
train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    dataset=dict(
        split="splits/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
