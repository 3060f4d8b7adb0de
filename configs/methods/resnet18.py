"""ResNet-18 with GroupNorm.

Paper: He et al., CVPR 2016.

For 32x32 images; 2 groups in place of BatchNorm; the setting's schedule.
"""

slot = "network"
task = "classification"
needs = "object_images"

model = dict(type="ResNet18GN", groups=2)
