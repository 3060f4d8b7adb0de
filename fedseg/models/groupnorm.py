"""GroupNorm in place of BatchNorm: layers to build networks with, and weights made for it."""

from collections.abc import Callable

from torch import nn

from fedseg.checks import check_int
from fedseg.errors import ConfigError

# What BatchNorm has in a state dict and GroupNorm does not.
RUNNING_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


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


def absent_statistics(network: nn.Module) -> tuple[str, ...]:
    """Names that BatchNorm's running statistics would have where a network has GroupNorm."""
    layers = (name for name, layer in network.named_modules() if isinstance(layer, nn.GroupNorm))
    return tuple(f"{name}.{statistic}" for name in layers for statistic in RUNNING_STATISTICS)
