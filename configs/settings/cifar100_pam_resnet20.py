# ResNet-20 with GroupNorm of 2 groups, as in WIMA, which says 20 % of the 500 clients per round;
# FedAvgM has momentum 0.9.
_base_ = "cifar100_pam.py"

model = dict(type="ResNet20GN", groups=2)
client_sampler = dict(clients_per_round=100)
optim_wrapper = dict(optimizer=dict(lr=0.05, momentum=0))
