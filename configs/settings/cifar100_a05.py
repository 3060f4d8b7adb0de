_base_ = "../_base_/cifar100.py"

train_dataloader = dict(partition=dict(alpha=0.5))
