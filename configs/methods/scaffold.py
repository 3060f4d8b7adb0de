"""Control variates remove the clients' drift, at twice FedAvg's traffic.

Paper: Karimireddy et al., ICML 2020.

No paper on these data sets gives the step size: 1, as in the experiments of SCAFFOLD's own.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="SCAFFOLD", eta_g=1.0)

values = {
    # No paper has SCAFFOLD here, and its own has no local momentum: with it, (w - w_k)/(K_k eta)
    # is no mean gradient and the control variates grow without bound. So it is counted.
    "cifar10_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_c16": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam": dict(algorithm=dict(count_momentum=True)),
    "cifar100_pam_resnet20": {},  # trained without momentum
    "imagenet200": dict(algorithm=dict(count_momentum=True)),
    "feddrive": dict(algorithm=dict(count_momentum=True)),
    "cifar*_resnet18": dict(algorithm=dict(count_momentum=True)),
    "mnist_a01_scaffold": dict(algorithm=dict(count_momentum=True)),
}
