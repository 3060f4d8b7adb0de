# The ECCV 2022 paper's rows: the statistics of its released code differ from FedGloSS's and
# FedAlign's in the fourth digit.
_base_ = "cifar100_a05.py"

__normalize = dict(type="Normalize", mean=[0.5071, 0.4867, 0.4408], std=[0.2675, 0.2565, 0.2761])

train_dataloader = dict(
    transforms=[dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5), __normalize],
)
val_dataloader = dict(
    test=dict(transforms=[__normalize]),
    corrupted=dict(transforms=[__normalize]),
)
test_dataloader = val_dataloader
