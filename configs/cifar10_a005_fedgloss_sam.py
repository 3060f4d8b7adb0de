setting = "cifar10_a005"
methods = ["fedgloss_sam"]
