# ECCV 2022.
slot = "augmentation"
append = {"train_dataloader.transforms": [dict(type="Cutout", size=16)]}
