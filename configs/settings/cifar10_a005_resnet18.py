# ResNet-18 with GroupNorm of 2 groups, as in FedGloSS. CIFAR-10 has no row of its own in
# its table: it takes CIFAR-100's.
_base_ = "cifar10_a005.py"

model = dict(type="ResNet18GN", groups=2)
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(optimizer=dict(momentum=0.7, weight_decay=1e-5))
train_cfg = dict(max_rounds=10_000)
