# FedAlign's larger federation: a quarter of 64 clients in each of 100 rounds.
_base_ = "cifar10_c16.py"

train_dataloader = dict(partition=dict(num_clients=64))
train_cfg = dict(max_rounds=100)
