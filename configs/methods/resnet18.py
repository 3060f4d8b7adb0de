"""ResNet-18 with GroupNorm.

Paper: He et al., CVPR 2016.

For 32x32 images; 2 groups in place of BatchNorm; the setting's schedule.
"""

slot = "network"
task = "classification"
needs = "object_images"

model = dict(type="ResNet18GN", groups=2)

values = {
    # ResNet18-GN as in FedGloSS; CIFAR-10 has no row of its own in its table: it takes CIFAR-100's
    "cifar*_a*": dict(
        client_sampler=dict(clients_per_round=10),
        optim_wrapper=dict(optimizer=dict(momentum=0.7, weight_decay=1e-5)),
        train_cfg=dict(max_rounds=10_000),
    ),
}
