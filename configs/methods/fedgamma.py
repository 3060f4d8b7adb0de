"""SCAFFOLD with SAM on the clients.

Paper: Dai et al., 2023.

The FedGloSS paper gives rho and no step size: 1, as in SCAFFOLD. It publishes rho by data set:
elsewhere it is SAM's own default, untuned.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedGamma", eta_g=1.0)
optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)

values = {
    # the only value for the CNN in the FedGloSS paper's table
    "cifar10": dict(optim_wrapper=dict(rho=0.15)),
    "cifar100": dict(optim_wrapper=dict(rho=0.01)),
    # the only value in that table
    "landmarks": dict(optim_wrapper=dict(rho=0.05)),
    # the only value for ResNet-18 in that table; trained with momentum, see below
    "cifar*_resnet18": dict(algorithm=dict(count_momentum=True), optim_wrapper=dict(rho=0.01)),
    # FedSAM's radius, untuned
    "feddrive": dict(algorithm=dict(count_momentum=True), optim_wrapper=dict(rho=0.01)),
    # Trained with momentum, which is counted, for else the control variates grow without bound;
    # SAM's own default radius, untuned.
    "cifar10_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam_resnet20": {},  # trained without momentum
    "imagenet200": dict(algorithm=dict(count_momentum=True)),
    "classes": dict(algorithm=dict(count_momentum=True)),
}
