"""SAM as local optimizer: steps along the gradient at the worst nearby point.

Paper: Caldarola et al., ECCV 2022.

No radius is published here: SAM's own default, untuned.
"""

slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
