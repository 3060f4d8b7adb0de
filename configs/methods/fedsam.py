# No radius is published here: SAM's own default, untuned.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
