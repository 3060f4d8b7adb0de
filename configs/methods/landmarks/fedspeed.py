# rho 0.05 and alpha 0.95 are the FedGloSS paper's; of lambda 100 and 1000 the choice is lost.
_base_ = "../fedspeed.py"

algorithm = dict(rho=0.05, lam=100)
