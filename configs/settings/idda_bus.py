_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/heterogeneous/bus/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/heterogeneous/bus/test")),
    seen=dict(dataset=dict(split="splits/heterogeneous/bus/test")),
)
test_dataloader = val_dataloader
