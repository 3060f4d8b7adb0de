# ECCV 2022, table of SAM and ASAM: for every alpha.
slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.5, eta=0.2)
