# FedAvgM + SWA on small images; SWA's cycle suits eighty rounds.
_base_ = "settings/demo_shapes.py"
methods = ["fedavgm", "swa"]

averaging = dict(cycle=5, lr2=0.01)
