"""The forward pass of a batch through a model, by MMEngine's conventions."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError
from fedseg.memory import map_tensors


def prepare_batch(model: nn.Module, batch: Any, dtype: torch.dtype, training: bool) -> Any:
    """Pass a batch through the model's data preprocessor, and floats to the model's dtype."""
    preprocessor = getattr(model, "data_preprocessor", None)
    if preprocessor is not None:
        batch = preprocessor(batch, training)
    return map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t, batch)


def forward(model: nn.Module, batch: Any, mode: str) -> Any:
    """Call a model by MMEngine's convention, with the entries of a batch as keywords."""
    if not isinstance(batch, Mapping):
        raise ConfigError(
            f"batch: must be a dict, not {type(batch).__name__}: let the data set return "
            "dict(inputs=image, data_samples=labels)"
        )
    return model(**batch, mode=mode)


def total_loss(losses: Tensor | Mapping[str, Tensor | Sequence[Tensor]]) -> Tensor:
    """The scalar to descend: the sum of every entry with ``loss`` in its name."""
    if isinstance(losses, Tensor):
        return losses.mean()
    total = None
    for name, value in losses.items():
        if "loss" not in name:
            continue
        parts = [value] if isinstance(value, Tensor) else value
        for part in parts:
            scalar = part.mean() if part.dim() else part
            total = scalar if total is None else total + scalar
    if total is None:
        raise ConfigError(
            "model: forward(mode='loss') returned no entry with 'loss' in its name, "
            f"only {sorted(losses)}"
        )
    return total
