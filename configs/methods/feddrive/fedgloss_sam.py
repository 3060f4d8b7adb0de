# The clients' rho is FedSAM's on the same data set.
_base_ = "../fedgloss_sam.py"

optim_wrapper = dict(rho=0.01)
