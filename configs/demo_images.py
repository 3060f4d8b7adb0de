# FedAvgM + SWA of the last quarter. The rate falls to zero, so that seeds and threads end alike.
setting = "demo_shapes"
methods = ["fedavgm", "swa"]
algorithm, averaging = dict(server_optim=dict(momentum=0.7)), dict(cycle=1)
optim_wrapper, param_scheduler = dict(optimizer=dict(lr=0.1)), dict(type="PolyLR", power=0.9)
train_cfg = dict(max_rounds=100, val_interval=20, val_last_interval=10)
