algorithm = dict(rho=0.01)  # the only value in the FedGloSS paper's table for this network
