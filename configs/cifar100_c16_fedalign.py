_base_ = "settings/cifar100_c16.py"
methods = ["fedalign"]
