# Not published here: CIFAR-100's values. Its schedule of 15,000 rounds would outlast these 10,000:
# 5,000, also in the paper's grid.
_base_ = "../cifar100/fedgloss_sam.py"

algorithm = dict(rho_rounds=5000)
optim_wrapper = dict(rho_rounds=5000)
