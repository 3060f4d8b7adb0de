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
    "imagenet200": dict(algorithm=dict(count_momentum=True)),
    "feddrive": dict(algorithm=dict(count_momentum=True)),
    "cifar*_a* + resnet18": dict(algorithm=dict(count_momentum=True)),
    "demo_shapes + resnet18": dict(algorithm=dict(count_momentum=True)),
    # the course report: 3 rounds, ten times FedAvg's learning rate, and a momentum of 0.001
    "mnist": dict(
        algorithm=dict(count_momentum=True),
        optim_wrapper=dict(optimizer=dict(lr=0.01, momentum=0.001)),
        train_cfg=dict(max_rounds=3),
    ),
}
