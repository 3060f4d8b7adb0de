# FedDrive's: any training image of another town or weather gives its style.
_base_ = "../lab.py"

train_dataloader = dict(dataset=dict(style=dict(images_per_domain=None, exclude="condition")))
