# ECCV 2022, table of SAM and ASAM: eta is 0 or 0.2; as on PAM, 0 goes with mixup, which is not
# used here.
slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.5, eta=0.2)
