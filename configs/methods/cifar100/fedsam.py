# ECCV 2022, table of SAM and ASAM: for alpha 0.5 and 1000.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
