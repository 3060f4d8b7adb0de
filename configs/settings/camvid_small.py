# CamVid at half its size, for two minutes on one CPU core: the images, clients and domains of
# camvid.py; the network, its start and the schedule of demo_weather.py.
_base_ = "demo_weather.py"

__data = dict(type="CamVidDataset", data_root="data/camvid")
__size = (180, 240)  # height and width of the images
__test = dict(
    split="splits/test",
    test_mode=True,
    pipeline=[dict(type="ResizeInput", size=__size), dict(type="ResizeLabel", size=__size)],
    **__data,
)
__loader = dict(batch_size=8, num_workers=0)

model = dict(num_classes=11)
train_dataloader = dict(
    batch_size=8,
    dataset=dict(
        split="splits/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.75, 1.5), crop_size=(128, 160), base_size=__size),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    _delete_=True,
    seen=dict(dataset=dict(users="test_user_same_domain", **__test), **__loader),
    unseen_0001TP=dict(dataset=dict(users="test_user_0001TP", **__test), **__loader),
    unseen_Seq05VD=dict(dataset=dict(users="test_user_Seq05VD", **__test), **__loader),
)
test_dataloader = val_dataloader
train_cfg = dict(
    max_rounds=30, val_initial=False, val_interval=10, val_last_rounds=12, val_last_interval=3
)
