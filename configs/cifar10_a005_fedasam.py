setting = "cifar10_a005"
methods = ["fedasam"]
