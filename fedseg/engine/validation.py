"""Checks of updates before they are summed."""

import math
from collections.abc import Mapping
from numbers import Real

import torch
from torch import Tensor

from fedseg.core.aggregate import weightings_of
from fedseg.core.algorithm import Algorithm
from fedseg.core.messages import ClientResult, Message, Payload, Update
from fedseg.core.vectors import finite_norm
from fedseg.errors import ConfigError


def norm_limits(medians: Mapping[str, float], model: float, ratio: float) -> dict[str, float]:
    """Largest allowed norms of what clients send, by name; ``""``: vectors without a median.

    ``ratio`` times the median of the round before, but at least the model's norm. In the first
    round ``ratio`` times the model's norm for an update, ``ratio**2`` times for other vectors,
    which have other units. All limits are known before a round begins, so neither the order of the
    clients nor who trains them matters.

    Args:
        medians: of the norms of the round before, by name.
        model: norm of the global model, at least 1.
        ratio: ``train_cfg.max_norm_ratio``; inf: any norm that is finite.
    """
    if math.isinf(ratio):
        return {}
    limits = {"": ratio**2 * model, "delta": ratio * model}
    for name, median in medians.items():
        limits[name] = max(ratio * median, model)
    return limits


def check_contract(
    result: ClientResult, message: Message, algorithm: Algorithm, payloads: Mapping[str, Payload]
) -> None:
    """Check names, types and shapes of what a client sends; once, on the first update.

    Args:
        result: the first one of an exchange.
        message: what the client received.
        algorithm: declares the vectors and their weightings.
        payloads: what else may be sent, by name.

    Raises:
        ConfigError: the update is not what was declared.
    """
    train = algorithm.exchanges[result.task.exchange].train
    _check_vectors(result.update, message, algorithm, train)
    _check_payloads(result.update, message, algorithm, payloads)
    for name, number in result.update.numbers.items():
        if not isinstance(number, Real):
            raise ConfigError(
                f"{type(algorithm).__name__}.finish: number {name!r} must be a plain number, not "
                f"{type(number).__name__}: use .item()"
            )
    for name, tensor in result.state.items():
        if not isinstance(tensor, Tensor):
            raise ConfigError(
                f"client.state[{name!r}]: must be a tensor, not {type(tensor).__name__}"
            )


def _check_vectors(update: Update, message: Message, algorithm: Algorithm, train: bool) -> None:
    owner = type(algorithm).__name__
    if train and "delta" not in update.vectors:
        raise ConfigError(f"{owner}.finish: the update has no 'delta', which follows local steps")
    for name, vector in update.vectors.items():
        if name == "buffers":
            raise ConfigError(f"{owner}.finish: 'buffers' is the name of BatchNorm's statistics")
        if name not in algorithm.weightings:
            raise ConfigError(
                f"{owner}.weightings: lacks {name!r}, which finish() sends: say how it is summed, "
                f"'samples' or 'uniform'"
            )
        _check_tensor(f"{owner}.finish: {name!r}", vector, message.w.shape, message.w)
        for weighting in weightings_of(algorithm.weightings, name):
            if weighting not in ("samples", "uniform", *update.weights):
                raise ConfigError(
                    f"{owner}.finish: Update.weights lacks {weighting!r}, by which "
                    f"{owner}.weightings weighs {name!r}"
                )


def _check_payloads(
    update: Update, message: Message, algorithm: Algorithm, declared: Mapping[str, Payload]
) -> None:
    for name, payload in update.payloads.items():
        if name in update.vectors:
            raise ConfigError(
                f"{type(algorithm).__name__}.finish: {name!r} is the name of a vector and of a "
                "payload"
            )
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise ConfigError(f"{name!r} is not a declared payload; declared: {known}")
        sizes = declared[name].sizes(message.w)
        _check_tensor(f"payload {name!r}", payload, sizes, message.w)


def _check_tensor(field: str, value: object, shape: tuple[int, ...], like: Tensor) -> None:
    """Check that a value is a dense tensor of a shape, in dtype and on device of ``like``."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        raise ConfigError(f"{field}: must be a dense tensor, not {type(value).__name__}")
    if value.shape != torch.Size(shape):
        raise ConfigError(f"{field}: must have shape {[*shape]}, not {[*value.shape]}")
    if value.dtype != like.dtype or value.device != like.device:
        raise ConfigError(
            f"{field}: must be {like.dtype} on {like.device}, not {value.dtype} on {value.device}"
        )


def measure_norms(result: ClientResult) -> dict[str, float]:
    """Measure the norms of what a client sends, by name; NaN: not all of it is finite."""
    update = result.update
    norms = {}
    for name, vector in {**update.vectors, "buffers": result.buffers, **update.payloads}.items():
        norm = finite_norm(vector.detach().flatten())
        norms[name] = math.nan if norm is None else norm
    return norms


def find_update_fault(
    result: ClientResult, norms: Mapping[str, float], limits: Mapping[str, float]
) -> str | None:
    """Why an update must be rejected, or None if it counts.

    Args:
        result: with the update, the buffers and the client's new state.
        norms: by :func:`measure_norms`.
        limits: of the norms, by :func:`norm_limits`.
    """
    for name, weight in result.update.weights.items():
        if not isinstance(weight, Real) or not math.isfinite(weight) or weight < 0:
            return f"its weight {name} is {weight}, not a finite number of at least 0"
    for name, number in result.update.numbers.items():
        if not math.isfinite(number):
            return f"{name} is not finite"
    for name, norm in norms.items():
        if math.isnan(norm):
            return f"{name} is not finite"
        limit = limits.get(name, limits.get("", math.inf))
        if norm > limit:
            return f"{name} has norm {norm:.3g}, train_cfg.max_norm_ratio allows {limit:.3g}"
    for name, tensor in result.state.items():
        if tensor.is_floating_point() and finite_norm(tensor.detach().flatten()) is None:
            return f"state {name} is not finite"
    return None
