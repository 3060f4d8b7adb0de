_base_ = "../_base_/cifar10.py"

setting = "cifar10_a005"
train_dataloader = dict(partition=dict(alpha=0.05))
