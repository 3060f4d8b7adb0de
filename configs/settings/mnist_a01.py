_base_ = "../_base_/mnist.py"

setting = "mnist_a01"
lookup = ["mnist"]
train_dataloader = dict(partition=dict(alpha=0.1))
