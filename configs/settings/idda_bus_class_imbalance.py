_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/class_imbalance/bus/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/class_imbalance/bus/test")),
    seen=dict(dataset=dict(split="splits/class_imbalance/bus/test")),
)
test_dataloader = val_dataloader
