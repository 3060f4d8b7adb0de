# ECCV 2022, table of SAM and ASAM.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
