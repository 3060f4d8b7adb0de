# ADE20K with three clients a class, 450 in all, each of which knows that class only.
_base_ = ["../_base_/classes.py"]

__source = dict(type="ADE20KDataset", data_root="data/ade20k")
__train = dict(img_path="images/training", seg_map_path="annotations/training")
__test = dict(img_path="images/validation", seg_map_path="annotations/validation")

model = dict(num_classes=150)
train_dataloader = dict(
    dataset=dict(
        type="MMSegDataset",
        source=dict(data_prefix=__train, **__source),
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(480, 480)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(type="ClassHeterogeneous", clients_per_class=3),
)
val_dataloader = dict(
    test=dict(
        batch_size=1,  # images differ in size
        num_workers=2,
        dataset=dict(
            type="MMSegDataset", test_mode=True, source=dict(data_prefix=__test, **__source)
        ),
    ),
)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=800)
