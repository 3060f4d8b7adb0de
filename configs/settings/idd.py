# IDD: Cityscapes' classes in India; a client is a drive.
_base_ = "../_base_/listed.py"

__data = dict(type="IDDDataset", data_root="data/idd")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(dataset=__data)
val_dataloader = dict(
    test=dict(batch_size=1, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
