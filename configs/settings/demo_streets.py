# Rendered streets with the clients and domains of the rainy experiment, small enough for minutes on
# two CPU cores, at 256 x 464 pixels; the rest is as published. docs/data_sets.md renders the data.
_base_ = "idda_rainy.py"

__root = "data/demo"
__crop, __size = (128, 224), (144, 256)  # height, width; images are rendered at 256 x 464
__test = dict(
    data_root=__root,
    pipeline=[
        dict(type="ResizeInput", size=__crop),
        dict(type="ResizeLabel", size=(256, 464)),
    ],
)

train_dataloader = dict(
    batch_size=8,
    drop_last=False,
    dataset=dict(
        data_root=__root,
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=__crop, base_size=__size),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    num_workers=1,
)
val_dataloader = dict(
    unseen=dict(dataset=__test, num_workers=0), seen=dict(dataset=__test, num_workers=0)
)
test_dataloader = val_dataloader
client_sampler = dict(type="UniformSampler")
train_cfg = dict(max_rounds=30, val_interval=10, val_last_rounds=1, amp=True)
