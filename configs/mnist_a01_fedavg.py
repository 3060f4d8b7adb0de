_base_ = "settings/mnist_a01.py"
methods = ["fedavg"]
