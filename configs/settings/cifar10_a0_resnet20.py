# ResNet-20 with GroupNorm of 2 groups, as in WIMA, with batches of 100.
_base_ = "cifar10_a0.py"

model = dict(type="ResNet20GN", groups=2)
train_dataloader = dict(batch_size=100)
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(optimizer=dict(lr=0.1, weight_decay=0))
train_cfg = dict(max_rounds=10_000)
