# Not published with this network. The CNN's schedule of 15,000 rounds would outlast these 10,000:
# 5,000, also in the paper's grid.
algorithm = dict(rho_rounds=5000)
