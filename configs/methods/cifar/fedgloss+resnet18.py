_base_ = "fedgloss_sgd+resnet18.py"
