# Close to homogeneous clients.
_base_ = "../_base_/cifar100.py"

setting = "cifar100_a1000"
train_dataloader = dict(partition=dict(alpha=1000))
