# One client that holds every image; a round is an epoch. No length is published: 500 epochs see as
# many images as the 10,000 rounds of 5 clients. SWA's cycle is the published number, in epochs. No
# radius of SAM and ASAM is published: those of nearly homogeneous clients (alpha = 100).
_base_ = "../_base_/cifar10.py"

train_dataloader = dict(partition=dict(_delete_=True, type="SinglePartition"))
client_sampler = dict(clients_per_round=1)
train_cfg = dict(max_rounds=500, val_interval=10)
default_hooks = dict(checkpoint=dict(interval=10))
