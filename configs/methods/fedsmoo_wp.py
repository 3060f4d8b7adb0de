"""FedSMOO with FedGloSS's schedule of the radius.

Paper: Caldarola et al., CVPR 2025.

FedSMOO with FedGloSS's schedule of the radius ("+wp"), which its paper tried on CIFAR. rho_0 is
published; the rest is not: rho, beta and clipping as in fedsmoo.py, T_s as in fedgloss_sam.py, or a
fifth of the rounds, its share on CIFAR-10, where these are few.
"""

slot = ["algorithm", "local_optimizer"]

__fedsmoo = dict(_delete_=True, type="FedSMOO", beta=10, rho0=0.001)
__clipped = dict(clip_grad=dict(max_norm=10))

values = {
    "cifar10": dict(algorithm=dict(rho=0.1, rho_rounds=2000, **__fedsmoo), optim_wrapper=__clipped),
    "cifar100": dict(
        algorithm=dict(rho=0.1, rho_rounds=15_000, **__fedsmoo), optim_wrapper=__clipped
    ),
    # 15,000 would outlast these 10,000 rounds: 5,000, also in the grid of T_s
    "cifar100_pam": dict(
        algorithm=dict(rho=0.1, rho_rounds=5000, **__fedsmoo), optim_wrapper=__clipped
    ),
    "cifar100_a*_resnet20": dict(
        algorithm=dict(rho=0.1, rho_rounds=5000, **__fedsmoo), optim_wrapper=__clipped
    ),
    # the only value of rho for this network in the FedGloSS paper's table of FedSMOO
    "cifar10_*_resnet18": dict(
        algorithm=dict(rho=0.01, rho_rounds=2000, **__fedsmoo), optim_wrapper=__clipped
    ),
    "cifar100_*_resnet18": dict(
        algorithm=dict(rho=0.01, rho_rounds=5000, **__fedsmoo), optim_wrapper=__clipped
    ),
    # a fifth or a quarter of the rounds
    "cifar10_c16": dict(
        algorithm=dict(rho=0.1, rho_rounds=5, **__fedsmoo), optim_wrapper=__clipped
    ),
    "cifar10_c64": dict(
        algorithm=dict(rho=0.1, rho_rounds=20, **__fedsmoo), optim_wrapper=__clipped
    ),
    "cifar100_c16": dict(
        algorithm=dict(rho=0.1, rho_rounds=5, **__fedsmoo), optim_wrapper=__clipped
    ),
    "imagenet200": dict(
        algorithm=dict(rho=0.1, rho_rounds=5, **__fedsmoo), optim_wrapper=__clipped
    ),
    "demo_shapes": dict(
        algorithm=dict(rho=0.1, rho_rounds=20, **__fedsmoo), optim_wrapper=__clipped
    ),
}
