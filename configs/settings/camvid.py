# CamVid with 11 classes: clients are pieces of two recordings by day, unseen are a recording at
# dusk (0001TP) and one by day (Seq05VD). Not a published benchmark: Cityscapes' optimizer and
# methods, BiSeNetV2 with MMSegmentation's heads, and rounds that suit a few hundred small images.
# Names that begin with two underscores stay in this file.
_base_ = "../_base_/feddrive.py"

__test = dict(type="CamVidDataset", data_root="data/camvid", split="splits/test", test_mode=True)

model = dict(type="BiSeNetV2Segmentor", num_classes=11)
train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    dataset=dict(
        type="CamVidDataset",
        data_root="data/camvid",
        split="splits/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=(192, 256)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    seen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(users="test_user_same_domain", **__test),
    ),
    unseen_0001TP=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(users="test_user_0001TP", **__test),
    ),
    unseen_Seq05VD=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(users="test_user_Seq05VD", **__test),
    ),
)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=200, val_interval=10, val_last_rounds=50, val_last_interval=5)
