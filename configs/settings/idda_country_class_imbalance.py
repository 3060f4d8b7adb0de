_base_ = "../_base_/idda.py"

train_dataloader = dict(dataset=dict(split="splits/class_imbalance/country/train"))
val_dataloader = dict(
    unseen=dict(dataset=dict(split="splits/class_imbalance/country/test")),
    seen=dict(dataset=dict(split="splits/class_imbalance/country/test")),
)
test_dataloader = val_dataloader
