# Close to homogeneous clients.
_base_ = "../_base_/cifar100.py"

train_dataloader = dict(partition=dict(alpha=1000))
