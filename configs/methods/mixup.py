"""Mixes images and labels of a batch in pairs.

Paper: Zhang et al., ICLR 2018.

ECCV 2022: alpha = 1, one lambda a batch.
"""

slot = "augmentation"
append = {"train_dataloader.transforms": [dict(type="Mixup", alpha=1.0)]}
