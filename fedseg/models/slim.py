"""Sub-networks of first channels: a network at a fraction of its width, with shared weights.

A layer of a sub-network is the first channels of the network's own layer, fed by the first channels
of the layers before (Yu and Huang, "Universally Slimmable Networks and Improved Training
Techniques", ICCV 2019). Gradients go to the entries that were used. FedAlign runs one stage this
way, GradAug the whole network.
"""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedseg.errors import ConfigError
from fedseg.models.resnet import PaddedShortcut


@dataclass(frozen=True)
class SlimLayer:
    """A layer that has a sub-network.

    Attributes:
        layer: the network's own layer.
        forward: called with the layer, a function from a number of channels to the number of those
            that are kept, and the input.
        whole: whether all output channels are kept.
    """

    layer: nn.Module
    forward: Callable[..., Tensor]
    whole: bool


class Slim:
    """Runs a network at a fraction of its width.

    Of C channels a layer keeps the multiple of ``multiple`` that is nearest to ``width C``, or the
    next one if that is less than 0.9 of it, as in the released code of GradAug and FedAlign.

    - Convolutions and linear layers have the first of their output channels and take as many input
      channels as come in; depthwise convolutions keep as many as come in.
    - BatchNorm normalizes by the batch; its running statistics, which are the full network's, are
      neither read nor changed.
    - GroupNorm keeps its number of groups, so that a group has fewer channels. Kept channels are
      therefore also a multiple of the number of groups.

    Args:
        network: the module to run.
        multiple: see above.
        whole: layers whose output keeps all its channels, for example a classifier.
    """

    def __init__(
        self, network: nn.Module, multiple: int = 1, whole: Collection[nn.Module] = ()
    ) -> None:
        self._layers: list[SlimLayer] = []
        for name, layer in network.named_modules():
            forward = _slim_forward(layer)
            if _has_no_sub_network(layer, forward):
                raise ConfigError(
                    f"model: layer {name or type(network).__name__} ({type(layer).__name__}) has "
                    "no sub-network: use Conv2d (groups 1 or depthwise, zero padding), Linear, "
                    "BatchNorm or GroupNorm, or subclasses that keep their forward"
                )
            if forward is not None:
                is_whole = any(layer is other for other in whole)
                self._layers.append(SlimLayer(layer, forward, is_whole))
        self.multiple = multiple
        for slim in self._layers:
            if isinstance(slim.layer, nn.GroupNorm):
                self.multiple = math.lcm(self.multiple, slim.layer.num_groups)

    def kept(self, channels: int, width: float) -> int:
        """The number of channels of a layer in the sub-network."""
        exact = channels * width
        nearest = int(exact + self.multiple / 2) // self.multiple * self.multiple
        number = max(self.multiple, nearest)
        if number < 0.9 * exact:
            number += self.multiple
        return min(number, channels)

    @contextmanager
    def at(self, width: float) -> Iterator[None]:
        """Inside, the network computes its sub-network of this width, in (0, 1]."""
        try:
            for slim in self._layers:
                count = int if slim.whole else partial(self.kept, width=width)
                slim.layer.__dict__["forward"] = partial(slim.forward, slim.layer, count)
            yield
        finally:
            for slim in self._layers:
                slim.layer.__dict__.pop("forward", None)


def _convolution(layer: nn.Conv2d, kept: Callable[[int], int], x: Tensor) -> Tensor:
    in_channels = x.shape[1]
    if layer.groups > 1:  # depthwise
        out_channels = groups = in_channels
    else:
        out_channels = kept(layer.out_channels)
        groups = 1
    weight = layer.weight[:out_channels, : in_channels // groups]
    bias = None if layer.bias is None else layer.bias[:out_channels]
    stride = layer.stride
    if layer.kernel_size == (1, 1) and layer.padding == (0, 0):
        # The same result. torch 2.11 on a CPU writes past the end of a gradient where a strided 1x1
        # convolution of channels_last images has a number of channels that is no multiple of eight.
        x = x[:, :, :: stride[0], :: stride[1]]
        stride = (1, 1)
    return F.conv2d(x, weight, bias, stride, layer.padding, layer.dilation, groups)


def _linear(layer: nn.Linear, kept: Callable[[int], int], x: Tensor) -> Tensor:
    # also on flattened pixels: the first channels come first
    out_features = kept(layer.out_features)
    bias = None if layer.bias is None else layer.bias[:out_features]
    return F.linear(x, layer.weight[:out_features, : x.shape[-1]], bias)


def _batch_norm(layer: _BatchNorm, _kept: Callable[[int], int], x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, *_affine(layer, x), training=True, eps=layer.eps)


def _group_norm(layer: nn.GroupNorm, _kept: Callable[[int], int], x: Tensor) -> Tensor:
    return F.group_norm(x, layer.num_groups, *_affine(layer, x), layer.eps)


def _padded_shortcut(layer: PaddedShortcut, kept: Callable[[int], int], x: Tensor) -> Tensor:
    return PaddedShortcut.forward(layer, x, kept(layer.out_channels))


def _affine(layer: nn.Module, x: Tensor) -> list[Tensor | None]:
    """Scale and shift of the channels that come in; None where a norm layer has none."""
    parameters = (layer.weight, layer.bias)
    return [None if parameter is None else parameter[: x.shape[1]] for parameter in parameters]


FORWARDS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    _BatchNorm: _batch_norm,
    nn.GroupNorm: _group_norm,
    PaddedShortcut: _padded_shortcut,
}


def _slim_forward(layer: nn.Module) -> Callable[..., Tensor] | None:
    """What a layer computes in a sub-network; None if it computes what it always does."""
    for kind, forward in FORWARDS.items():
        if isinstance(layer, kind) and not _has_own_forward(layer, kind):
            return forward
    return None


def _has_own_forward(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a subclass computes something else than its base."""
    # SyncBatchNorm computes BatchNorm in one process; mmcv's wrappers are for old versions of torch
    forward = type(layer).forward
    known = forward in (kind.forward, nn.SyncBatchNorm.forward)
    return not known and forward.__module__ != "mmcv.cnn.bricks.wrappers"


def _has_no_sub_network(layer: nn.Module, forward: Callable[..., Tensor] | None) -> bool:
    """Whether the channels of a layer cannot be cut."""
    if forward is None:
        is_overridden = isinstance(layer, tuple(FORWARDS))
        return is_overridden or any(True for _ in layer.parameters(recurse=False))
    if isinstance(layer, nn.Conv2d):
        is_depthwise = layer.groups == layer.in_channels == layer.out_channels
        return (layer.groups > 1 and not is_depthwise) or layer.padding_mode != "zeros"
    return False
