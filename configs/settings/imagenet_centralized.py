# ImageNet (ILSVRC 2012) in folders of classes, without federation: makes the weights from which the
# published runs on Landmarks-User-160k start, MobileNetV2 with GroupNorm of 8 groups and about 68 %
# top-1. The ECCV 2022 paper has batches of 2,048 (appendix C.1) and no more: rates and epochs are
# torchvision's for the network with BatchNorm and batches of 256, the rate times 8. A round is an
# epoch.
_base_ = "../_base_/classification.py"

__root = "data/imagenet"

model = dict(
    type="MobileNetV2GN",
    num_classes=1000,
    groups=8,
    data_preprocessor=dict(
        type="ImagePreprocessor", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
    ),
)
train_dataloader = dict(
    batch_size=2048,
    num_workers=8,
    dataset=dict(type="ImageFolderDataset", data_root=__root, split="train"),
    partition=dict(type="SinglePartition"),
)
val_dataloader = dict(
    test=dict(
        batch_size=256,
        num_workers=8,
        dataset=dict(type="ImageFolderDataset", data_root=__root, split="val"),
    )
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=1)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.36, momentum=0.9, weight_decay=4e-5),
)
param_scheduler = dict(type="ExponentialLR", gamma=0.98)
train_cfg = dict(max_rounds=300, val_interval=10, val_last_rounds=1)
default_hooks = dict(checkpoint=dict(interval=1))
