# Without the schedules that CIFAR-100 has with this network: they are longer than these runs.
algorithm = dict(rho0=None, rho_rounds=0)
optim_wrapper = dict(rho0=None, rho_rounds=0)
