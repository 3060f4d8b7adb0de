# Every published SiloBN cell of FedDrive: its released code trains SiloBN in batches of 8,
# everything else in batches of 16.
_base_ = "cityscapes_heterogeneous.py"

train_dataloader = dict(batch_size=8)
