_base_ = "../_base_/mnist.py"

setting = "mnist_a1"
lookup = ["mnist"]
train_dataloader = dict(partition=dict(alpha=1))
