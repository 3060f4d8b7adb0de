# FedDrive's: any training image gives its style, those of the own city too.
_base_ = "../cfsi.py"

train_dataloader = dict(dataset=dict(style=dict(images_per_domain=None, exclude=None)))
