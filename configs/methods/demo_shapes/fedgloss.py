# Of CIFAR-10 with a schedule for its 10,000 rounds; here without.
_base_ = "../fedgloss.py"
