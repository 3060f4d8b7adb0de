# As fedgloss_sgd.py, with any local optimizer.
_base_ = "fedgloss_sgd.py"

slot = "algorithm"
