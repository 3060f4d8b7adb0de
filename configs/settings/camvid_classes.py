# CamVid with two clients a class, each of which knows that class only. Images are at half the
# paper's size, and so are the crops; training and test images are those of camvid.py.
_base_ = ["../_base_/classes.py"]

__test = dict(type="CamVidDataset", data_root="data/camvid", split="splits/test", test_mode=True)
__loader = dict(batch_size=8, num_workers=2)

model = dict(num_classes=11)
train_dataloader = dict(
    dataset=dict(
        type="CamVidDataset",
        data_root="data/camvid",
        split="splits/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(256, 256)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(type="ClassHeterogeneous", clients_per_class=2),
)
val_dataloader = dict(
    seen=dict(dataset=dict(users="test_user_same_domain", **__test), **__loader),
    unseen_0001TP=dict(dataset=dict(users="test_user_0001TP", **__test), **__loader),
    unseen_Seq05VD=dict(dataset=dict(users="test_user_Seq05VD", **__test), **__loader),
)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=800)
