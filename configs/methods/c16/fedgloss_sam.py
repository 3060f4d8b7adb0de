# CIFAR's schedule of the radius is longer than these runs: none here.
_base_ = "../fedgloss_sam.py"
