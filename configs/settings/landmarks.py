# Landmarks-User-160k: 1,262 users are the clients, of different sizes; images stay on disk. The
# random crop resized to 224x224 is published, and a flip belongs to it; how test images come to
# that size is not. MobileNetV2 has GroupNorm of 8 groups. The papers start from ImageNet weights,
# which imagenet_centralized.py makes: model.weights=dict(path='round_000300.pth',
# module='backbone'). Names that begin with two underscores stay inside their file.
_base_ = "../_base_/classification.py"

__root = "data/landmarks"
__test = dict(
    batch_size=64,
    num_workers=2,
    dataset=dict(
        type="LandmarksDataset",
        data_root=__root,
        split="test",
        pipeline=[
            dict(type="SmallestMaxSize", max_size=256),
            dict(type="CenterCrop", height=224, width=224),
        ],
    ),
)

model = dict(
    type="MobileNetV2GN",
    num_classes=2028,
    groups=8,
    pretrained="ImageNet",
    data_preprocessor=dict(
        type="ImagePreprocessor", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
    ),
)
train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    dataset=dict(
        type="LandmarksDataset",
        data_root=__root,
        split="train",
        pipeline=[
            dict(type="RandomResizedCrop", size=(224, 224)),
            dict(type="HorizontalFlip", p=0.5),
        ],
    ),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(test=__test)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=10)
# The exponent of the weight decay is not readable in the ECCV 2022 paper; FedGloSS prints 4e-5
# for the same data set.
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.1, momentum=0, weight_decay=4e-5),
)
train_cfg = dict(max_rounds=5000, local_epochs=5, val_interval=100)
default_hooks = dict(checkpoint=dict(interval=10))
