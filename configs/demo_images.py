# FedAvgM + SWA on small images. Rates and momentum suit the number of rounds, and the average takes
# every model of the last quarter, so that seeds and threads end alike.
_base_ = "settings/demo_shapes.py"
methods = ["fedavgm", "swa"]
algorithm = dict(server_optim=dict(momentum=0.7))
averaging = dict(cycle=1, lr2=0.01)
optim_wrapper = dict(optimizer=dict(lr=0.1))
train_cfg = dict(max_rounds=120)
