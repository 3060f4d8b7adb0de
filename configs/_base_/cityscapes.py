# Cityscapes with 19 classes, as in FedDrive's released code, in batches of 16 and 1,600 rounds
# (docs/feddrive.md); the settings choose the split.
_base_ = "feddrive.py"

train_dataloader = dict(
    batch_size=16,
    drop_last=True,
    num_workers=2,
    dataset=dict(
        type="CityscapesDataset",
        data_root="data/cityscapes",
        mirror=True,
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024), fill=0),
            dict(type="ChannelMeanJitter", brightness=0.4, contrast=0.4, saturation=0.4),
        ],
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    test=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(
            type="CityscapesDataset",
            data_root="data/cityscapes",
            users="test_user",
            test_mode=True,
        ),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(type="RoundSeededSampler")
train_cfg = dict(max_rounds=1600, amp=True)
