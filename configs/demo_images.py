# FedAvgM + SWA on small images. The rate falls to zero and the average takes every model of the
# last quarter, so that seeds and numbers of threads end alike.
_base_ = "settings/demo_shapes.py"
methods = ["fedavgm", "swa"]
algorithm = dict(server_optim=dict(momentum=0.7))
averaging = dict(cycle=1)
optim_wrapper = dict(optimizer=dict(lr=0.1))
param_scheduler = dict(type="PolyLR", power=0.9)
train_cfg = dict(max_rounds=100, val_interval=20, val_last_interval=10)
