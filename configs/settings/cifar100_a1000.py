# Close to homogeneous clients.
_base_ = "../_base_/cifar100.py"

setting = "cifar100_a1000"
lookup = ["cifar100", "cifar"]
train_dataloader = dict(partition=dict(alpha=1000))
