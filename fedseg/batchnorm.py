"""BatchNorm layers of a model, and which statistics they use."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def batchnorm_layers(model: nn.Module) -> dict[str, _BatchNorm]:
    """Every BatchNorm layer of whatever dimension (SyncBatchNorm too), by its name in the model."""
    return {name: m for name, m in model.named_modules() if isinstance(m, _BatchNorm)}


def batch_statistics(model: nn.Module | Iterable[nn.Module]) -> AbstractContextManager[None]:
    """Normalize by the statistics of the current batch, without the running ones.

    Running statistics are neither read nor changed, and the rest of the model keeps its mode. A
    layer that sees one value a channel (a single image at 1x1) has no statistics: torch raises
    ValueError.

    Args:
        model: a model, or its layers (``batchnorm_layers(model).values()``) to save the search.
    """
    return _layers_set(model, training=True, track_running_stats=False)


def frozen_running_statistics(
    model: nn.Module | Iterable[nn.Module],
) -> AbstractContextManager[None]:
    """Keep running statistics from being changed; each layer normalizes as its mode says.

    The model may be its layers, as in :func:`batch_statistics`.
    """
    return _layers_set(model, track_running_stats=False)


@contextmanager
def batch_statistics_where_defined(layers: Mapping[str, nn.Module]) -> Iterator[set[str]]:
    """As :func:`batch_statistics`, but a layer that sees one value a channel uses its running ones.

    One value a channel has no variance: the features of a single image after global pooling.

    Args:
        layers: BatchNorm layers by name.

    Yields:
        The names of the layers that used their running statistics so far.
    """
    running: set[str] = set()

    def choose_statistics(name: str, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        values, channels = inputs[0].numel(), inputs[0].shape[1]
        layer.training = values > channels
        if not layer.training:
            running.add(name)

    with batch_statistics(layers.values()), ExitStack() as hooks:
        for name, layer in layers.items():
            hook = partial(choose_statistics, name)
            hooks.enter_context(layer.register_forward_pre_hook(hook))
        yield running


@contextmanager
def _layers_set(model: nn.Module | Iterable[nn.Module], **attributes: bool) -> Iterator[None]:
    # In training a layer that does not track hands no running statistics to the kernel and does not
    # count the batch; in eval mode it goes on reading them.
    layers = batchnorm_layers(model).values() if isinstance(model, nn.Module) else list(model)
    before = [{name: getattr(layer, name) for name in attributes} for layer in layers]
    try:
        for layer in layers:
            layer.__dict__.update(attributes)
        yield
    finally:
        for layer, values in zip(layers, before, strict=True):
            layer.__dict__.update(values)
