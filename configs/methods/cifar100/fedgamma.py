# The only value in the FedGloSS paper's table for the CNN.
_base_ = "../fedgamma.py"

optim_wrapper = dict(rho=0.01)
