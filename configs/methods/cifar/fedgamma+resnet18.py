# rho is the only value in the FedGloSS paper's table for this network, which is trained with
# momentum: it is counted, for else the control variates grow without bound.
algorithm = dict(count_momentum=True)
optim_wrapper = dict(rho=0.01)
