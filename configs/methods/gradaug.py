"""Narrow sub-networks learn the full network's output from resized images.

Paper: Yang et al., NeurIPS 2020.

mu, n and the smallest width are FedAlign's. The rest is not printed there: as in its released code
one sub-network of each step has the smallest width, numbers of channels are multiples of eight, and
the resolutions are these four.
"""

slot = "regularizer"
task = "classification"
needs = "resnet"

local_loss = dict(
    type="GradAug",
    n=2,
    width=0.8,
    mu=1.75,
    resolutions=(32, 28, 24, 20),
    smallest=True,
    multiple=8,
)

values = {
    # for images of 224x224: the resolutions of GradAug's own ImageNet experiments
    "imagenet200": dict(local_loss=dict(resolutions=(224, 192, 160, 128))),
}
