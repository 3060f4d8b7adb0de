# Without the schedule that CIFAR-100 has with this network: it is longer than these runs.
algorithm = dict(rho0=None, rho_rounds=0)
