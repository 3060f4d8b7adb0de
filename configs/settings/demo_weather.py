# Rendered streets with the clients and domains of the rainy experiment, small enough for minutes on
# two CPU cores. The data is what `fedseg demo` renders; images, network, batches and rates are the
# demo's own. The network is BiSeNetV2 at a quarter of its width, with one head; it starts from what
# demo_towns_centralized.py has trained, its last layer from random weights.
_base_ = "idda_rainy.py"

__root = "data/demo_weather"
__size = (128, 232)  # height and width of the images
__test = dict(data_root=__root, pipeline=[dict(type="ResizeInput", size=(128, 224))])

model = dict(
    _delete_=True,
    type="Segmentor",
    num_classes=16,
    weights=dict(
        path="package:fedseg/configs/weights/demo_towns.pth", ignore="decode_head.conv_seg."
    ),
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
    loss=dict(type="CrossEntropy"),
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
train_dataloader = dict(
    batch_size=4,
    drop_last=False,
    dataset=dict(
        data_root=__root,
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.75, 1.5), crop_size=(128, 224), base_size=__size),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    num_workers=0,
)
val_dataloader = dict(
    unseen=dict(dataset=__test, num_workers=0), seen=dict(dataset=__test, num_workers=0)
)
test_dataloader = val_dataloader
client_sampler = dict(type="UniformSampler")
optim_wrapper = dict(optimizer=dict(lr=0.05))
param_scheduler = dict(type="PolyLR", power=0.9)
train_cfg = dict(
    max_rounds=28,
    amp=False,
    val_initial=True,
    val_interval=6,
    val_last_rounds=16,
    val_last_interval=4,
)
