_base_ = "../_base_/mnist.py"

setting = "mnist_a1"
train_dataloader = dict(partition=dict(alpha=1))
