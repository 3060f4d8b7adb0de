# FedAlign's 200 classes of ImageNet at 224x224 (Table 7): ResNet-18, each class split over 16
# clients by Dir(0.5), all of them in each of 25 rounds, 20 local epochs. The classes were drawn at
# random and are not published: the 200 folders in train and val decide. What the paper leaves out
# is as for CIFAR-100 (cifar100_c16.py). The table's other clients: 32, 4 in each of 50 rounds.
_base_ = "../_base_/classification.py"

__root = "data/imagenet200"

model = dict(
    type="ResNet18",
    num_classes=200,
    data_preprocessor=dict(
        type="ImagePreprocessor", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
    ),
)
train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    dataset=dict(type="ImageFolderDataset", data_root=__root, split="train", num_classes=200),
    partition=dict(type="DirichletClassPartition", num_clients=16, alpha=0.5, balanced=True),
)
val_dataloader = dict(
    test=dict(
        batch_size=64,
        num_workers=2,
        dataset=dict(type="ImageFolderDataset", data_root=__root, split="val", num_classes=200),
    )
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=16)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4),
)
train_cfg = dict(
    max_rounds=25, local_epochs=20, val_interval=1, val_last_rounds=1, val_last_interval=1
)
default_hooks = dict(checkpoint=dict(interval=1))
