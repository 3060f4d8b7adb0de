# One class a client.
_base_ = "../_base_/cifar100.py"

setting = "cifar100_a0"
train_dataloader = dict(partition=dict(alpha=0))
