_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/uniform/rainy/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/uniform/rainy/test")),
    seen=dict(dataset=dict(split="splits/uniform/rainy/test")),
)
test_dataloader = val_dataloader
