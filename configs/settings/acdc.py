# ACDC: Cityscapes' classes in fog, at night, in rain and in snow, a domain and a test set each.
_base_ = "../_base_/listed.py"

__data = dict(type="ACDCDataset", data_root="data/acdc")
__test = dict(split="splits/test", test_mode=True, **__data)

train_dataloader = dict(dataset=__data)
val_dataloader = dict(
    fog=dict(batch_size=4, num_workers=2, dataset=dict(domains="fog", **__test)),
    night=dict(batch_size=4, num_workers=2, dataset=dict(domains="night", **__test)),
    rain=dict(batch_size=4, num_workers=2, dataset=dict(domains="rain", **__test)),
    snow=dict(batch_size=4, num_workers=2, dataset=dict(domains="snow", **__test)),
)
test_dataloader = val_dataloader
