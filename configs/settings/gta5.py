# GTA5: Cityscapes' classes in a game; clients are alike.
_base_ = "../_base_/listed.py"

__data = dict(type="GTA5Dataset", data_root="data/gta5")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(dataset=__data)
val_dataloader = dict(
    seen=dict(batch_size=1, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
