"""GroupNorm layers to build networks with in place of BatchNorm."""

from collections.abc import Callable

from torch import nn

from fedseg.checks import check_int
from fedseg.errors import ConfigError


def group_norm(groups: int) -> Callable[[int], nn.GroupNorm]:
    """A function from number of channels to GroupNorm layer, torchvision's ``norm_layer``.

    Raises:
        ConfigError: ``groups`` is no positive integer; on a call, it does not divide the channels.
    """
    check_int("model.groups", groups)

    def build(channels: int) -> nn.GroupNorm:
        if channels % groups:
            raise ConfigError(
                f"model.groups: {groups} does not divide a layer's {channels} channels: use a "
                "divisor"
            )
        return nn.GroupNorm(groups, channels)

    return build
