# CIFAR's schedule of the radius is longer than these runs: here it takes a fifth of 25 rounds, its
# share on CIFAR-10.
_base_ = "../cifar10/fedsmoo_wp.py"

algorithm = dict(rho_rounds=5)
