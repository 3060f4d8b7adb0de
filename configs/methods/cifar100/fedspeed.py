# The grid of rho on CIFAR-100 is 0.005, 0.01, 0.02 and 0.05, the choice is lost: FedSAM's radius.
_base_ = "../fedspeed.py"

algorithm = dict(rho=0.05)
