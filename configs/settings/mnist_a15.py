_base_ = "../_base_/mnist.py"

setting = "mnist_a15"
train_dataloader = dict(partition=dict(alpha=1.5))
