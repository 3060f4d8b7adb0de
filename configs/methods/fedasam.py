"""ASAM as local optimizer: sharpness-aware steps that scale with the weights.

Paper: Kwon et al., ICML 2021.

No radius is published here: ASAM's own default, untuned; eta is the ECCV 2022 paper's.
"""

slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.5, eta=0.2)
