# FedAlign's alpha.
slot = "augmentation"
append = {"train_dataloader.transforms": [dict(type="Mixup", alpha=0.1)]}
