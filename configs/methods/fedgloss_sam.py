"""SAM on the server at FedAvg's traffic, and SAM on the clients.

Paper: Caldarola et al., CVPR 2025.

As fedgloss_sgd.py, the clients with SAM at its own default radius.
"""

_base_ = "fedgloss_sgd.py"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
