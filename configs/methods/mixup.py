"""Mixes images and labels of a batch in pairs.

Paper: Zhang et al., ICLR 2018.

ECCV 2022: alpha = 1, one lambda a batch.
"""

slot = "augmentation"
append = {"train_dataloader.transforms": [dict(type="Mixup", alpha=1.0)]}

values = {
    # FedAlign's alpha
    "cifar10_c16": dict(append={"train_dataloader.transforms": [dict(type="Mixup", alpha=0.1)]}),
    "cifar100_c16": dict(append={"train_dataloader.transforms": [dict(type="Mixup", alpha=0.1)]}),
    "imagenet200": dict(append={"train_dataloader.transforms": [dict(type="Mixup", alpha=0.1)]}),
}
