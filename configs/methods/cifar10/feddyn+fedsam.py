optim_wrapper = dict(rho=0.15)  # the only value in the FedGloSS paper's table for the CNN
