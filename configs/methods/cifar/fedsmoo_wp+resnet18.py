# The only value of FedSMOO in the FedGloSS paper's table for this network.
algorithm = dict(rho=0.01)
