# ResNet-18 with GroupNorm of 2 groups, as in FedGloSS.
_base_ = "cifar100_a05.py"

model = dict(type="ResNet18GN", groups=2)
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(optimizer=dict(momentum=0.7, weight_decay=1e-5))
train_cfg = dict(max_rounds=10_000)
