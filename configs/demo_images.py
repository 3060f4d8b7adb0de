# FedAvgM + SWA on small images; rates, momentum and SWA's cycle suit eighty rounds.
_base_ = "settings/demo_shapes.py"
methods = ["fedavgm", "swa"]
algorithm = dict(server_optim=dict(momentum=0.7))
averaging = dict(cycle=5, lr2=0.01)
optim_wrapper = dict(optimizer=dict(lr=0.1))
