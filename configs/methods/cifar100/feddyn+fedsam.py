optim_wrapper = dict(
    rho=0.02
)  # of 0.01 and 0.02 in the FedGloSS paper's grid, whose choice is lost
