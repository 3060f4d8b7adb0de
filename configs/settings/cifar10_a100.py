# Close to homogeneous clients.
_base_ = "../_base_/cifar10.py"

setting = "cifar10_a100"
train_dataloader = dict(partition=dict(alpha=100))
