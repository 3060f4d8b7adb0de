# Of CIFAR-10 with a schedule for its 10,000 rounds; here over a quarter of the rounds.
_base_ = "../cifar10/fedsmoo_wp.py"

algorithm = dict(rho_rounds=20)
