"""How a batch goes through a model, by MMEngine's conventions."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError


def prepare_batch(model: nn.Module, batch: Any, dtype: torch.dtype, training: bool) -> Any:
    """A batch as the model wants it: through its data preprocessor, floats in the model's dtype."""
    preprocessor = getattr(model, "data_preprocessor", None)
    if preprocessor is not None:
        batch = preprocessor(batch, training)
    return _cast_floats(batch, dtype)


def _cast_floats(data: Any, dtype: torch.dtype) -> Any:
    if isinstance(data, Tensor):
        return data.to(dtype) if data.is_floating_point() and data.dtype != dtype else data
    if isinstance(data, Mapping):
        return {key: _cast_floats(value, dtype) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return type(data)(_cast_floats(value, dtype) for value in data)
    return data


def forward(model: nn.Module, batch: Any, mode: str) -> Any:
    """Call a model by MMEngine's convention: a dict as keywords, a sequence as arguments."""
    if isinstance(batch, Mapping):
        return model(**batch, mode=mode)
    if isinstance(batch, Sequence):
        return model(*batch, mode=mode)
    return model(batch, mode=mode)


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
