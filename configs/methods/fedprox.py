"""A proximal term keeps clients near the received model.

Paper: Li et al., MLSys 2020.

The ECCV 2022 paper's choice from 0.001, 0.01 and 0.1.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedProx", mu=0.1)

values = {
    # FedAlign's choice for ResNet-56
    "cifar10_c16": dict(algorithm=dict(mu=1e-4)),
    "cifar100_c16": dict(algorithm=dict(mu=1e-4)),
    "imagenet200": dict(algorithm=dict(mu=1e-4)),
}
