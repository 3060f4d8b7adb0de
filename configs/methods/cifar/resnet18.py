# ResNet18-GN as in FedGloSS. CIFAR-10 has no row of its own in its table: it takes CIFAR-100's.
_base_ = "../resnet18.py"

client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(optimizer=dict(momentum=0.7, weight_decay=1e-5))
train_cfg = dict(max_rounds=10_000)
