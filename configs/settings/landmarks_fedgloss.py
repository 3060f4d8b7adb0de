# The FedGloSS paper's rounds and participation.
_base_ = "landmarks.py"

client_sampler = dict(clients_per_round=50)
train_cfg = dict(max_rounds=1300)
