# The ECCV 2022 paper's rows: its released code divides by these deviations, which are not those of
# the training images, as in FedGloSS and FedAlign.
_base_ = "cifar10_a005.py"

__normalize = dict(type="Normalize", mean=[0.4914, 0.4822, 0.4465], std=[0.2023, 0.1994, 0.2010])

train_dataloader = dict(
    transforms=[dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5), __normalize],
)
val_dataloader = dict(
    test=dict(transforms=[__normalize]),
    corrupted=dict(transforms=[__normalize]),
)
test_dataloader = val_dataloader
