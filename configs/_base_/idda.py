# IDDA with 16 classes, as in FedDrive's released code, in batches of 16 and 1,600 rounds
# (docs/feddrive.md); the settings choose the split. Names that begin with two
# underscores stay inside their file.
_base_ = "feddrive.py"

__size = (1024, 1856)  # every image is resized to it; predictions are scored at it
__input = (512, 928)
__resize = dict(type="Resize", height=__size[0], width=__size[1], interpolation=2)  # 2: cubic

__train = dict(
    type="IDDADataset",
    data_root="data/idda",
    pipeline=[
        __resize,
        dict(type="HorizontalFlip", p=0.5),
        dict(type="RandomAreaCrop", size=__input, area=(0.5, 2.0)),
    ],
)
__test = dict(
    type="IDDADataset",
    data_root="data/idda",
    test_mode=True,
    pipeline=[__resize, dict(type="ResizeInput", size=__input, antialias=True)],
)

model = dict(num_classes=16)
train_dataloader = dict(
    batch_size=16,
    drop_last=True,
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
client_sampler = dict(type="RoundSeededSampler")
train_cfg = dict(max_rounds=1600, amp=True)
