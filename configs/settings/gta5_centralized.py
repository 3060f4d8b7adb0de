# GTA5 with the 19 classes of Cityscapes, evaluated on Cityscapes: what the server trains before
# gta5_to_cityscapes.py. A round is an epoch.
_base_ = "../_base_/cityscapes.py"

train_dataloader = dict(
    batch_size=8,
    drop_last=False,
    dataset=dict(
        _delete_=True,
        type="MMSegDataset",
        source=dict(
            type="BaseSegDataset",
            data_root="data/gta5",
            data_prefix=dict(img_path="images", seg_map_path="labels"),
            img_suffix=".png",
        ),
        ids="gta5",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(_delete_=True, type="SinglePartition"),
)
val_dataloader = dict(test=dict(dataset=dict(split="splits/heterogeneous/test")))
test_dataloader = val_dataloader
client_sampler = dict(type="UniformSampler", clients_per_round=1)
train_cfg = dict(max_rounds=15, amp=False, local_epochs=1, val_interval=5)
