# Rendered streets, small enough for seconds per run on two CPU cores: the setting of
# tools/demo_leaderboard.py, which renders the data. Clients and domains are those of the published
# rainy experiment; images, network (a narrow BiSeNetV2), rounds and rates are this demo's own.
_base_ = "idda_rainy.py"

__root = "data/demo_leaderboard"
__crop, __size = (64, 112), (72, 128)  # height, width; images are rendered at 128 x 232
__test = dict(
    data_root=__root,
    pipeline=[
        dict(type="ResizeInput", size=__crop),
        dict(type="ResizeLabel", size=(128, 232)),
    ],
)

setting = "demo_leaderboard"
protocols = None  # rounds and batches are the demo's own
model = dict(
    _delete_=True,
    type="Segmentor",
    num_classes=16,
    network=dict(
        type="EncoderDecoder",
        backbone=dict(
            type="BiSeNetV2",
            detail_channels=(16, 32, 32),
            semantic_channels=(8, 16, 24, 32),
            bga_channels=32,
        ),
        decode_head=dict(
            type="FCNHead",
            in_index=0,
            in_channels=32,
            channels=64,
            num_convs=1,
            concat_input=False,
            norm_cfg=dict(type="BN"),
            align_corners=False,
        ),
    ),
    loss=dict(type="OHEMCrossEntropy", ratio=0.25),
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
train_dataloader = dict(
    batch_size=4,
    dataset=dict(
        data_root=__root,
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.75, 1.5), crop_size=__crop, base_size=__size),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    num_workers=0,
)
val_dataloader = dict(
    unseen=dict(dataset=__test, num_workers=0), seen=dict(dataset=__test, num_workers=0)
)
test_dataloader = val_dataloader
optim_wrapper = dict(optimizer=dict(lr=0.05))
train_cfg = dict(max_rounds=24, val_interval=4, val_last_rounds=8, val_last_interval=4)
