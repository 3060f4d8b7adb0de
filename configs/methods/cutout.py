"""Replaces a square of each image by zeros.

Paper: DeVries and Taylor, 2017.

Not published here: as on CIFAR-10, half of the image's side.
"""

slot = "augmentation"
append = {"train_dataloader.transforms": [dict(type="Cutout", size=16)]}

values = {
    # ECCV 2022
    "cifar10": dict(append={"train_dataloader.transforms": [dict(type="Cutout", size=16)]}),
    "cifar100": dict(append={"train_dataloader.transforms": [dict(type="Cutout", size=8)]}),
}
