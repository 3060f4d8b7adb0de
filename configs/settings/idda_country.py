_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/heterogeneous/country/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/heterogeneous/country/test")),
    seen=dict(dataset=dict(split="splits/heterogeneous/country/test")),
)
test_dataloader = val_dataloader
