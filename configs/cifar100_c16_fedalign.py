setting = "cifar100_c16"
methods = ["fedalign"]
