# SYNTHIA-RAND-CITYSCAPES: rendered streets with 16 of Cityscapes' classes.
_base_ = "../_base_/listed.py"

__data = dict(type="SynthiaDataset", data_root="data/synthia")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(dataset=__data)
val_dataloader = dict(
    seen=dict(batch_size=4, num_workers=2, dataset=dict(**__test)),
)
test_dataloader = val_dataloader
