"""SAM on the server at FedAvg's traffic, SGD on the clients.

Paper: Caldarola et al., CVPR 2025.

The choice within the FedGloSS paper's grid for Landmarks-User-160k is lost in its table. Here it is
rho_server 0.01 (of 0.005, 0.01, 0.02) and beta 100 (of 10, 50, 100), untuned. T_s is 0. The paper
has no segmentation experiment and none on MNIST: these values, untuned.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedGloSS", rho_server=0.01, beta=100)

values = {
    # CIFAR-10. The choice within the paper's grid is lost in its table, and the released commands
    # are for clients with SAM. With their rho_server 0.15 and the paper's rules training with SGD
    # diverges at alpha 0.05; rho_server 0.01 and the released rules reach the paper's accuracy
    # there (docs/results.md). beta 10, rho0 and T_s are those of the commands. Other alphas are
    # untuned.
    "cifar10": dict(
        algorithm=dict(beta=10, rho0=0.001, rho_rounds=2000, released_rules=True),
    ),
    # CIFAR-100. The choice is lost, too: the values of the released commands, which are in the
    # paper's grid; rho grows from 0.001 over the first T_s rounds. T_s 15,000 would outlast the
    # 10,000 rounds of PAM and of ResNet-20: 5,000, also in the grid; not published there.
    "cifar100": dict(algorithm=dict(rho0=0.001, rho_rounds=15_000)),
    "cifar100_pam": dict(algorithm=dict(rho0=0.001, rho_rounds=5000)),
    "cifar100_a*_resnet20": dict(algorithm=dict(rho0=0.001, rho_rounds=5000)),
    # ResNet-18. The choice is lost, and no released command has this network: rho_server 0.1 (of
    # 0.01, 0.05, 0.1, 0.5) and beta 10 (of 1, 2, 5, 10 on CIFAR-10, of 5, 10, 100 on CIFAR-100) lie
    # in both data sets' grids, untuned.
    "cifar*_resnet18": dict(algorithm=dict(rho_server=0.1, beta=10)),
    # CIFAR's schedules of the radius are longer than these runs: none here
    "cifar10_c16": {},
    "cifar100_c16": {},
    "demo_shapes": {},
}
