# One client that holds every image; a round is an epoch. No length is published: 1000 epochs see as
# many images as the 20,000 rounds of 5 clients. SWA's cycle is the published number, in epochs. No
# radius of SAM and ASAM is published: those of nearly homogeneous clients (alpha = 1000).
_base_ = "../_base_/cifar100.py"

train_dataloader = dict(partition=dict(_delete_=True, type="SinglePartition"))
client_sampler = dict(clients_per_round=1)
train_cfg = dict(max_rounds=1000, val_interval=10)
default_hooks = dict(checkpoint=dict(interval=10))
