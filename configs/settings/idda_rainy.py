_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/heterogeneous/rainy/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/heterogeneous/rainy/test")),
    seen=dict(dataset=dict(split="splits/heterogeneous/rainy/test")),
)
test_dataloader = val_dataloader
