# Mapillary Vistas with RobustNet's map to the 19 classes of Cityscapes; clients are alike.
_base_ = "mapillary_a.py"

__layout = dict(dataset=dict(layout="mapillary_b"))

train_dataloader = __layout
val_dataloader = dict(test=__layout)
test_dataloader = val_dataloader
