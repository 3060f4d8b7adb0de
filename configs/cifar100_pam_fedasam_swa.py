_base_ = "settings/cifar100_pam.py"
methods = ["fedasam", "swa"]
