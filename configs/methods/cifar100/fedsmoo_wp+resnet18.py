# rho is the only value of FedSMOO in the FedGloSS paper's table for this network. The schedule of
# 15,000 rounds for the CNN would outlast these 10,000: 5,000, also in the grid of T_s.
algorithm = dict(rho=0.01, rho_rounds=5000)
