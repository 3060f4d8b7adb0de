_base_ = "../_base_/cityscapes.py"

train_dataloader = dict(dataset=dict(split="splits/heterogeneous/train"))
val_dataloader = dict(test=dict(dataset=dict(split="splits/heterogeneous/test")))
test_dataloader = val_dataloader
