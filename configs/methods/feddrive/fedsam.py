# ECCV 2022, table of SAM and ASAM: for uniform and heterogeneous clients; class imbalance takes
# the same.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.01)
