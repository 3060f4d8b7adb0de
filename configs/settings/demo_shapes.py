# Small images that no client has a fair share of: minutes on two CPU cores. The data are what
# `fedseg demo images` renders; the model is the published one, the
# rest is chosen for eighty rounds in place of ten thousand.
_base_ = "../_base_/cifar10.py"

__root = "data/demo_shapes"
__test = dict(
    test=dict(dataset=dict(type="SyntheticShapesDataset", data_root=__root)),
    # few of the test images under simple corruptions
    corrupted=dict(
        dataset=dict(
            data_root=__root,
            folder="demo_corrupted",
            corruptions=[
                "gaussian_noise",
                "brightness",
                "contrast",
                "jpeg_compression",
                "gaussian_blur",
            ],
        )
    ),
)

train_dataloader = dict(
    batch_size=16,
    dataset=dict(type="SyntheticShapesDataset", data_root=__root),
    partition=dict(num_clients=50, alpha=1.0),
)
val_dataloader = __test
test_dataloader = __test
optim_wrapper = dict(optimizer=dict(lr=0.05))
default_hooks = dict(checkpoint=dict(interval=5))
train_cfg = dict(max_rounds=80, val_interval=10, val_last_rounds=20, val_last_interval=5)
