# CIFAR-100 on 100 clients of 500 images. The corrupted test images are evaluated once, at the end,
# if they are there. How clients hold the classes is said beside this file: cifar100_a<alpha>.py,
# cifar100_pam.py. Names that begin with two underscores stay inside their file.

__root = "data/cifar100"
__normalize = dict(type="Normalize", mean=[0.5071, 0.4865, 0.4409], std=[0.2673, 0.2564, 0.2762])

train_dataloader = dict(
    type="ResidentData",
    batch_size=64,
    dataset=dict(type="CIFAR100Dataset", data_root=__root, split="train"),
    partition=dict(type="DirichletPartition", num_clients=100),
    transforms=[dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5), __normalize],
)
val_dataloader = dict(
    test=dict(
        type="ResidentData",
        batch_size=125,
        dataset=dict(type="CIFAR100Dataset", data_root=__root, split="test"),
        transforms=[__normalize],
    ),
    corrupted=dict(
        type="CorruptedData",
        batch_size=125,
        final_only=True,
        optional=True,
        dataset=dict(type="CIFAR100CDataset", data_root=__root),
        transforms=[__normalize],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="Accuracy")
test_evaluator = val_evaluator
