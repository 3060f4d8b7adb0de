_base_ = "../_base_/cityscapes.py"

train_dataloader = dict(dataset=dict(split="splits/class_imbalance/train"))
val_dataloader = dict(test=dict(dataset=dict(split="splits/class_imbalance/test")))
test_dataloader = val_dataloader
