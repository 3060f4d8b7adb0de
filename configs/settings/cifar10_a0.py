# One class a client.
_base_ = "../_base_/cifar10.py"

setting = "cifar10_a0"
lookup = ["cifar10", "cifar"]
train_dataloader = dict(partition=dict(alpha=0))
