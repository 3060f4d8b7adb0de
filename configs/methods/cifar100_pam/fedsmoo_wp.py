# Not published here: CIFAR-100's values. Its schedule of 15,000 rounds would outlast these 10,000:
# 5,000, also in the grid of T_s.
_base_ = "../cifar100/fedsmoo_wp.py"

algorithm = dict(rho_rounds=5000)
