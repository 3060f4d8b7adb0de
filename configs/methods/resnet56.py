"""ResNet-56.

Paper: He et al., CVPR 2016.

ResNet-56 of bottleneck blocks for 32x32 images, with BatchNorm, as FedAlign uses it. Where no paper
trains it, the schedule is the setting's.
"""

slot = "network"
task = "classification"
needs = "object_images"

model = dict(type="ResNet56")

values = {
    # no paper trains it here; the setting's own network has groups
    "cifar100_pam": dict(model=dict(groups=None)),
}
