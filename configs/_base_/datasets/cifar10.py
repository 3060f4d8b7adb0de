# CIFAR-10 on 100 clients of 500 images. The corrupted test images are evaluated once, at the end,
# if they are there. How clients hold the classes is said beside this file: cifar10_a<alpha>.py
# Names that begin with two underscores stay inside their file.

__root = "data/cifar10"
__normalize = dict(type="Normalize", mean=[0.4914, 0.4822, 0.4465], std=[0.2470, 0.2435, 0.2616])

train_dataloader = dict(
    type="ResidentData",
    batch_size=64,
    dataset=dict(type="CIFAR10Dataset", data_root=__root, split="train"),
    partition=dict(type="DirichletPartition", num_clients=100),
    transforms=[dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5), __normalize],
)
# 125 test images at a time: their activations fit a processor's cache. With 1,000 an evaluation
# takes 1.5 times as long there.
val_dataloader = dict(
    test=dict(
        type="ResidentData",
        batch_size=125,
        dataset=dict(type="CIFAR10Dataset", data_root=__root, split="test"),
        transforms=[__normalize],
    ),
    corrupted=dict(
        type="CorruptedData",
        batch_size=125,
        final_only=True,
        optional=True,
        dataset=dict(type="CIFAR10CDataset", data_root=__root),
        transforms=[__normalize],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="Accuracy")
test_evaluator = val_evaluator
