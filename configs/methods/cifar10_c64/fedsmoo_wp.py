# Over a fifth of 100 rounds.
_base_ = "../c16/fedsmoo_wp.py"

algorithm = dict(rho_rounds=20)
