# IDDA with 16 classes, as in FedDrive; the settings choose the split. Names that begin with two
# underscores stay inside their file.
_base_ = "feddrive.py"

__size = (1024, 1856)  # what scale 1 means in training, and the size that predictions are scored at
__input = (512, 928)

__train = dict(
    type="IDDADataset",
    data_root="data/idda",
    pipeline=[
        dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=__input, base_size=__size),
        dict(type="HorizontalFlip", p=0.5),
    ],
)
__test = dict(
    type="IDDADataset",
    data_root="data/idda",
    test_mode=True,
    pipeline=[dict(type="ResizeInput", size=__input), dict(type="ResizeLabel", size=__size)],
)

model = dict(num_classes=16)
train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    dataset=__train,
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    unseen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(users="test_user_diff_domain", **__test),
    ),
    seen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(users="test_user_same_domain", **__test),
    ),
)
test_dataloader = val_dataloader
optim_wrapper = dict(optimizer=dict(lr=0.1, weight_decay=0))
