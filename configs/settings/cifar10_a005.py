_base_ = "../_base_/cifar10.py"

train_dataloader = dict(partition=dict(alpha=0.05))
