"""SAM on the server at FedAvg's traffic, with any local optimizer.

Paper: Caldarola et al., CVPR 2025.

Values as in fedgloss_sgd.py.
"""

_base_ = "fedgloss_sgd.py"

slot = "algorithm"
