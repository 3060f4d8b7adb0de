# One client that holds every image; a round is an epoch, at whose start the momentum is zero.
_base_ = "idda_bus.py"

train_dataloader = dict(partition=dict(_delete_=True, type="SinglePartition"))
client_sampler = dict(clients_per_round=1)
train_cfg = dict(local_epochs=1)
