"""Tensors: how many threads compute, faults in weights and logits, functions of nested tensors.

The bits of long sums depend on the number of threads.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fedseg.errors import TrainingError

LARGEST = 1e10  # of weights; statistics of raw pixels are far below it


@contextmanager
def restoring_threads(number: int | None = None) -> Iterator[None]:
    """Compute with so many threads within it (None: as before); afterwards as many as before it."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


def find_weights_fault(weights: Tensor) -> str | None:
    """Why no training can have given these weights or statistics, or None."""
    if not torch.isfinite(weights).all():
        return "is not finite"
    if weights.numel() and weights.dtype != torch.bool and float(weights.abs().max()) > LARGEST:
        return f"has values above {LARGEST:g}, which no training gives"
    return None


def finite(logits: Tensor) -> Tensor:
    """The logits themselves; TrainingError if one is NaN or infinite: argmax would score it."""
    if logits.device.type == "meta" or torch.isfinite(logits.sum()):
        return logits  # far cheaper; a sum may overflow where no logit has
    if not torch.isfinite(logits).all():
        raise TrainingError(
            "the model predicts logits that are not finite: use an earlier checkpoint, lower the "
            "learning rates or set optim_wrapper.clip_grad"
        )
    return logits


def map_tensors(function: Callable[[Tensor], Any], data: Any) -> Any:
    """The same structure of mappings, tuples and lists with a function applied to every tensor."""
    if isinstance(data, Tensor):
        return function(data)
    if isinstance(data, Mapping):
        return {key: map_tensors(function, value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        values = [map_tensors(function, value) for value in data]
        if hasattr(data, "_make"):  # a named tuple
            return data._make(values)
        return type(data)(values)
    return data
