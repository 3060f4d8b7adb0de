"""ASAM as local optimizer: sharpness-aware steps that scale with the weights.

Paper: Kwon et al., ICML 2021.

No radius is published here: ASAM's own default, untuned; eta is the ECCV 2022 paper's.
"""

slot = "local_optimizer"

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.5, eta=0.2)

values = {
    # ECCV 2022, table of SAM and ASAM
    "cifar10": dict(optim_wrapper=dict(rho=0.7)),  # alpha 0 and 0.05
    "cifar10_a100": dict(optim_wrapper=dict(rho=0.05)),
    "cifar100": dict(optim_wrapper=dict(rho=0.5)),  # every alpha
    "cifar100_pam": dict(optim_wrapper=dict(rho=0.5)),
    "cifar100_pam + mixup": dict(optim_wrapper=dict(eta=0)),
    "landmarks": dict(optim_wrapper=dict(rho=0.5)),  # eta is 0 or 0.2: 0 goes with mixup on PAM
    # ECCV 2022, the same table: uniform and heterogeneous clients; class imbalance takes the same
    "cityscapes": dict(optim_wrapper=dict(rho=0.1)),
    "idda": dict(optim_wrapper=dict(rho=0.5)),
    # not published: as nearly homogeneous clients, ASAM's own default, Cityscapes' radius
    "cifar10_centralized": dict(optim_wrapper=dict(rho=0.05)),
    "cifar10_c16": dict(optim_wrapper=dict(rho=0.5)),
    "classes": dict(optim_wrapper=dict(rho=0.5)),
    "feddrive": dict(optim_wrapper=dict(rho=0.1)),
    "demo_weather": dict(optim_wrapper=dict(rho=0.1)),
}
