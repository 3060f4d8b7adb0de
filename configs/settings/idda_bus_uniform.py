_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/uniform/bus/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/uniform/bus/test")),
    seen=dict(dataset=dict(split="splits/uniform/bus/test")),
)
test_dataloader = val_dataloader
