# Pascal VOC 2012 with 21 classes; clients differ in their mix of pixels.
_base_ = "../_base_/listed.py"

__data = dict(type="VOCDataset", data_root="data/voc")
__test = dict(split="splits/test", test_mode=True, **__data)

model = dict(num_classes=21)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=(480, 480)),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
)
val_dataloader = dict(
    test=dict(batch_size=1, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
