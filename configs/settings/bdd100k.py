# BDD100K, 10k images: Cityscapes' classes in the United States; clients are alike.
_base_ = "../_base_/listed.py"

__data = dict(type="BDD100KDataset", data_root="data/bdd100k")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(dataset=__data)
val_dataloader = dict(
    test=dict(batch_size=4, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
