_base_ = "../_base_/mnist.py"

setting = "mnist_a2"
lookup = ["mnist"]
train_dataloader = dict(partition=dict(alpha=2))
