# FedDrive's: any training image of another town or weather gives its style.
_base_ = "../cfsi.py"

train_dataloader = dict(dataset=dict(style=dict(images_per_domain=None, exclude="condition")))
