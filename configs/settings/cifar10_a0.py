# One class a client.
_base_ = "../_base_/cifar10.py"

setting = "cifar10_a0"
train_dataloader = dict(partition=dict(alpha=0))
