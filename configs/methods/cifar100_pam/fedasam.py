# ECCV 2022, table of SAM and ASAM: eta is 0.2 without mixup.
slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.5, eta=0.2)
