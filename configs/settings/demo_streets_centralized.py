# The rendered streets without federation: how much a network that has only seen clear weather loses
# in rain. Ordinary training (SGD, BatchNorm's running statistics); a round is an epoch.
_base_ = "demo_streets.py"

# there is one client
train_dataloader = dict(partition=dict(_delete_=True, type="SinglePartition"))
client_sampler = dict(clients_per_round=1)
optim_wrapper = dict(optimizer=dict(lr=0.05, weight_decay=5e-4))
train_cfg = dict(max_rounds=8, local_epochs=1, val_interval=4)
