"""GroupNorm layers to build networks with in place of BatchNorm."""

from collections.abc import Callable

from torch import nn


def group_norm(groups: int) -> Callable[[int], nn.GroupNorm]:
    """A function from number of channels to GroupNorm layer, torchvision's ``norm_layer``."""

    def build(channels: int) -> nn.GroupNorm:
        if channels % groups:
            raise ValueError(f"groups: {groups} does not divide a layer's {channels} channels")
        return nn.GroupNorm(groups, channels)

    return build
