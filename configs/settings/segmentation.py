# Images and label maps of your own, as fedseg prepare segmentation lists them: the config that it
# writes inherits this setting and adds classes, crop and test sets. Cityscapes' optimizer and
# methods, BiSeNetV2 with MMSegmentation's heads, and rounds that suit a few hundred images.
_base_ = "../_base_/feddrive.py"

__data = dict(
    type="ListedDataset",
    data_root="data/segmentation",
    image_path="images/{name}.{ending}",
    label_path="labels/{name}.png",
    classes=["background", "object"],
)

model = dict(type="BiSeNetV2Segmentor", num_classes=2)
train_dataloader = dict(
    batch_size=4,
    num_workers=2,
    dataset=dict(
        split="splits/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=(256, 256)),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    test=dict(
        batch_size=1,
        num_workers=2,
        dataset=dict(split="splits/test", test_mode=True, **__data),
    ),
)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=100, val_interval=10, val_last_rounds=20, val_last_interval=5)
