_base_ = "../_base_/mnist.py"

setting = "mnist_a2"
train_dataloader = dict(partition=dict(alpha=2))
