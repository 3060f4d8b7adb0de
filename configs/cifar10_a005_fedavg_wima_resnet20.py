_base_ = "settings/cifar10_a005.py"
methods = ["wima", "resnet20"]
