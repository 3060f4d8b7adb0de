# ADE20K with 150 classes; clients differ in their mix of pixels.
_base_ = "voc.py"

__data = dict(dataset=dict(type="ADE20KDataset", data_root="data/ade20k"))

model = dict(num_classes=150)
train_dataloader = __data
val_dataloader = dict(test=__data)
test_dataloader = val_dataloader
