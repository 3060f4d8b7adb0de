# FedSAM's radius on these data sets, untuned.
_base_ = "../momentum/fedgamma.py"

optim_wrapper = dict(rho=0.01)
