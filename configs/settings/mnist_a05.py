_base_ = "../_base_/mnist.py"

train_dataloader = dict(partition=dict(alpha=0.5))
