_base_ = "settings/cifar100_a05.py"
methods = ["fedgloss_sam"]
