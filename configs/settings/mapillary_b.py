# Mapillary Vistas with RobustNet's map to the 19 classes of Cityscapes; clients are alike.
_base_ = "mapillary_a.py"

__data = dict(dataset=dict(type="MapillaryBDataset"))

train_dataloader = __data
val_dataloader = dict(test=__data)
test_dataloader = val_dataloader
