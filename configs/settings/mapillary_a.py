# Mapillary Vistas with LADD's map to the 19 classes of Cityscapes; clients are alike.
_base_ = "../_base_/listed.py"

__data = dict(type="MapillaryADataset", data_root="data/mapillary")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type="SmallestMaxSize", max_size=1024),
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024)),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
)
val_dataloader = dict(
    test=dict(batch_size=1, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
