"""BatchNorm statistics that are estimated anew from training images."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.batchnorm import batchnorm_layers
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch
from fedseg.loaders.partitioned import PartitionedData, balanced_batches

ESTIMATED = 512  # training images, at most, that the statistics are estimated from


def statistics_batches(data: PartitionedData) -> Iterator[Any]:
    """Training images evenly spaced over all, in their training augmentation with a fixed seed."""
    everything = np.concatenate(list(data.indices.values()))
    chosen = everything[np.linspace(0, len(everything) - 1, ESTIMATED).round().astype(int)]
    chosen = np.unique(chosen)
    size = data.batch_size if data.batch_size != "full" else len(chosen)
    return data.sample_batches(balanced_batches(chosen, size))


@torch.no_grad()
def statistics_of(
    flat: FlatModel,
    batches: Iterable[Any],
    w: Tensor,
    buffers: Tensor,
    autocast: Callable[[], AbstractContextManager] = nullcontext,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    """Float buffers with the cumulative averages of BatchNorm statistics over these batches.

    ``check`` raises before a batch to stop. See :func:`statistics_batches`.
    """
    model = flat.model
    model.train()  # a network may leave layers in eval mode: these keep their statistics
    layers = [layer for layer in batchnorm_layers(model).values() if layer.training]
    flat.w.copy_(w)
    flat.buffers.copy_(buffers)
    model.eval()
    with _cumulative_averages(layers):
        for batch in batches:
            check()
            prepared = prepare_batch(model, batch, flat.w.dtype, training=True)
            with autocast():
                forward(model, prepared, "tensor")
    return flat.buffers.clone()


@contextmanager
def _cumulative_averages(layers: Sequence[Any]) -> Iterator[None]:
    """Within it, BatchNorm layers of a model in eval mode average the statistics of all batches."""
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
            layer.train()
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
            layer.eval()
