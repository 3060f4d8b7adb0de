_base_ = "../_base_/cifar100.py"

setting = "cifar100_a05"
train_dataloader = dict(partition=dict(alpha=0.5))
