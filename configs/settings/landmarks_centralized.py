# One client that holds every image of Landmarks-User-160k (ECCV 2022, Table 7: 74.03 %); a round is
# an epoch. No length is published: 198 epochs see as many images as the 5,000 rounds of 10 of 1,262
# clients with five local epochs.
_base_ = "landmarks.py"

train_dataloader = dict(partition=dict(_delete_=True, type="SinglePartition"))
client_sampler = dict(clients_per_round=1)
train_cfg = dict(max_rounds=198, local_epochs=1, val_interval=1, val_last_rounds=1)
default_hooks = dict(checkpoint=dict(interval=1))
