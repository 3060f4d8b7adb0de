# Pascal VOC 2012 with three clients a class, 60 in all, each of which knows that class only.
# To have 20 classes, background is ignored, in training and tests.
_base_ = ["../_base_/classes.py"]

__classes = """
aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person
pottedplant sheep sofa train tvmonitor
"""
__source = dict(
    type="PascalVOCDataset",
    data_root="data/voc",  # with JPEGImages, SegmentationClass, ImageSets
    data_prefix=dict(img_path="JPEGImages", seg_map_path="SegmentationClass"),
    metainfo=dict(classes=__classes.split()),
)
__lists = "ImageSets/Segmentation"

model = dict(num_classes=20)
train_dataloader = dict(
    dataset=dict(
        type="MMSegDataset",
        source=dict(ann_file=f"{__lists}/train.txt", **__source),
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
            type="MMSegDataset",
            test_mode=True,
            source=dict(ann_file=f"{__lists}/val.txt", **__source),
        ),
    ),
)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=1200)
