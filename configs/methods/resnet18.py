# ResNet-18 for 32x32 images, GroupNorm with 2 groups in place of BatchNorm; the setting's schedule.
slot = "network"
task = "classification"
needs = "object_images"

model = dict(type="ResNet18GN", groups=2)
