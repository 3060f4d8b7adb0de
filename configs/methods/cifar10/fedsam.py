# ECCV 2022, table of SAM and ASAM: for alpha 0 and 0.05.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.1)
