"""Local steps mix in the last round's mean direction.

Paper: Xu et al., 2021.

WIMA's grid is 0.05, 0.1 and 0.5, its choice is not given: 0.1, untuned.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedCM", alpha=0.1)

values = {
    # trained with momentum: it is counted, or the mean gradient is no mean
    "cifar10_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam_resnet20": {},  # trained without momentum
    "imagenet200": dict(algorithm=dict(count_momentum=True)),
    "feddrive": dict(algorithm=dict(count_momentum=True)),
    "cifar*_resnet18": dict(algorithm=dict(count_momentum=True)),
}
