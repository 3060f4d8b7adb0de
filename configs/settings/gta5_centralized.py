# GTA5 with the 19 classes of Cityscapes, evaluated on Cityscapes: what the server trains before
# gta5_to_cityscapes.py. A round is an epoch.
_base_ = "../_base_/cityscapes.py"

# the class of each raw id from 0; 255: ignored
__ids = [
    255, 255, 255, 255, 255, 255, 255, 0, 1, 255, 255, 2, 3, 4, 255, 255, 255, 5, 255, 6, 7, 8, 9,
    10, 11, 12, 13, 14, 15, 255, 255, 16, 17, 18, 255,
]  # fmt: skip

train_dataloader = dict(
    batch_size=8,
    drop_last=False,
    dataset=dict(
        _delete_=True,
        type="MMSegDataset",
        source=dict(
            type="CityscapesDataset",  # for its classes
            data_root="data/gta5",
            data_prefix=dict(img_path="images", seg_map_path="labels"),
            img_suffix=".png",
            seg_map_suffix=".png",
        ),
        ids=__ids,
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
