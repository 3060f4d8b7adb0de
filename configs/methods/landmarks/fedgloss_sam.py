# The choice within the paper's grid (0.05, 0.1, 0.2, 0.3) is lost in its table: FedSAM's radius.
_base_ = "fedgloss_sgd.py"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
