_base_ = "../_base_/mnist.py"

setting = "mnist_a01"
train_dataloader = dict(partition=dict(alpha=0.1))
