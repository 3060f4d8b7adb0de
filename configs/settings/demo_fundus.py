# Drawn fundus photographs of four cameras, the last of which is unseen: minutes on two CPU cores.
# The data are what `fedseg prepare fundus --root data/demo_fundus --synthetic` draws, 128 x 128.
_base_ = "fundus_unseen_4.py"

__root = "data/demo_fundus"
__flip = dict(type="HorizontalFlip", p=0.5)
__test = dict(num_workers=0, dataset=dict(data_root=__root, pipeline=[]))

train_dataloader = dict(num_workers=0, dataset=dict(data_root=__root, pipeline=[__flip]))
val_dataloader = dict(seen=__test, unseen=__test)
test_dataloader = val_dataloader
train_cfg = dict(max_rounds=20, val_interval=5, val_last_rounds=5, val_last_interval=1)
