"""ResNet-20 with GroupNorm.

Paper: He et al., CVPR 2016.

For 32x32 images; 2 groups in place of BatchNorm; the setting's schedule.
"""

slot = "network"
task = "classification"
needs = "object_images"

model = dict(type="ResNet20GN", groups=2)

values = {
    # ResNet20-GN as in WIMA, with batches of 100
    "cifar*_a*": dict(
        train_dataloader=dict(batch_size=100),
        client_sampler=dict(clients_per_round=10),
        optim_wrapper=dict(optimizer=dict(lr=0.1, weight_decay=0)),
        train_cfg=dict(max_rounds=10_000),
    ),
    # as in WIMA, which says 20 % of the 500 clients per round; FedAvgM has momentum 0.9
    "cifar100_pam": dict(
        client_sampler=dict(clients_per_round=100),
        optim_wrapper=dict(optimizer=dict(lr=0.05, momentum=0)),
    ),
}
