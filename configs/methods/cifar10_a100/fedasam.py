# ECCV 2022, table of SAM and ASAM.
slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.05, eta=0.2)
