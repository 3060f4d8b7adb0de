"""Validation of updates before they are aggregated."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from pydantic import NonNegativeInt
from torch import Tensor

from fedseg.config.schema import check_value
from fedseg.core.arithmetic import finite_norm
from fedseg.core.messages import ClientResult, Message

HEAVIEST = torch.finfo(torch.float32).max  # of a payload's weights, whose sum must be finite


def longest_norms(medians: Mapping[str, float], model: float, ratio: float) -> dict[str, float]:
    """Largest allowed norms of what clients send, by name; ``""``: vectors without a median.

    ``ratio`` times the median of the round before, but at least the model's norm. In the first
    round ``ratio`` times the model's norm for an update, ``ratio**2`` times for other vectors,
    which have other units. All limits are known before a round begins, so neither the order of the
    clients nor who trains them matters.

    Args:
        medians: by name.
        model: norm of the global model, at least 1.
        ratio: inf: any norm that is finite.
    """
    if math.isinf(ratio):
        return {}
    known = {name: max(ratio * median, model) for name, median in medians.items()}
    return {"": ratio**2 * model, "delta": ratio * model, **known}


def validate_update(
    result: ClientResult, message: Message, trained: bool, weightings: Sequence[str] = ()
) -> str | None:
    """Why an update must be rejected, or None if it counts.

    Args:
        result: what the client sends, and its new state; the norms of what it sends are noted.
        message: expected shapes, dtypes, largest norms.
        trained: whether it must send ``delta``. weightings: by which its vectors are summed.
    """
    check_value("Update.num_bytes", result.update.num_bytes, NonNegativeInt | None)
    if trained and "delta" not in result.update.vectors:
        return "delta is missing"
    check_value("client.state", result.state, Mapping[str, Tensor])
    weights = result.update.weights
    check_value("Update.weights", weights, Mapping[str, Real | Tensor])
    check_value("Update.numbers", result.update.numbers, Mapping[str, Real])
    if not all(map(math.isfinite, result.update.numbers.values())):
        return f"a number is not finite: {dict(result.update.numbers)}"
    if not all(map(math.isfinite, weights.values())):
        return f"a weight is not finite: {dict(weights)}"
    if any(weights.get(name, 0) < 0 for name in ("samples", "uniform")):
        return f"a weight of means is negative: {dict(weights)}"
    lacks = {*weightings} - {"samples", "uniform", *weights}
    if lacks and result.update.vectors:
        return f"Update.weights lacks {', '.join(sorted(lacks))}"
    if twice := result.update.vectors.keys() & {"buffers", *result.update.payloads}:
        return f"{min(twice)} is the name of two things that are sent"
    for name, value in list(result.update.payloads.items()):
        if problem := _check_payload(result, name, value):
            return problem
    payloads = {n: p[0] if isinstance(p, tuple) else p for n, p in result.update.payloads.items()}
    sent = {**result.update.vectors, "buffers": result.buffers, **payloads}
    place = torch.strided, message.w.device
    like = [n for n, t in result.state.items() if t.shape == message.w.shape]
    states = {f"state {n}": t for n in like if (t := result.state[n]).is_floating_point()}
    for name, vector in {**sent, **states}.items():
        like = message.buffers if name == "buffers" else message.w
        shape = result.declared[name].shape if name in payloads else None
        shape = tuple(like.shape) if shape is None else shape
        if not isinstance(vector, Tensor) or (vector.layout, vector.device) != place:
            return f"{name} is no dense tensor on {message.w.device}"
        if vector.shape != shape:
            return f"{name} has shape {tuple(vector.shape)}, expected {shape}"
        if vector.dtype != like.dtype:
            return f"{name} has dtype {vector.dtype}, expected {like.dtype}"
        if (norm := finite_norm(vector.detach().flatten())) is None:
            return f"{name} is not finite"
        if name in sent:
            result.norms[name] = norm
            most = message.longest.get(name, message.longest.get("", math.inf))
            if norm > most:
                return f"{name} has norm {norm:.3g}, train_cfg.max_norm_ratio allows {most:.3g}"
    return None


def _check_payload(result: ClientResult, name: str, value: Any) -> str | None:
    """Why a payload is refused before its tensor is looked at; rows without weight become 0."""
    if name not in result.declared:
        known = ", ".join(result.declared) or "none"
        return f"{name} is not a declared payload; declared: {known}"
    weighting = result.declared[name].weighting
    if weighting not in ("rows", "samples", "uniform", *result.update.weights):
        return f"{name} is weighted by {weighting!r}, which Update.weights lacks"
    if not 0 <= result.update.weights.get(weighting, 0) <= HEAVIEST:
        return f"{name} has a weight that is negative or not finite"
    if weighting != "rows":
        return None if isinstance(value, Tensor) else f"{name} must be a tensor"
    if not isinstance(value, tuple) or not all(isinstance(part, Tensor) for part in value):
        return f"{name} must be (rows, weights)"
    rows, weights = value
    if rows.shape != result.declared[name].shape:
        return None  # told like any other shape
    if weights.shape != (shape := rows.shape[:1]):
        return f"{name} has weights of shape {tuple(weights.shape)}, expected {tuple(shape)}"
    if not bool(((weights >= 0) & (weights <= HEAVIEST)).all()):
        return f"{name} has a weight that is negative or not finite"
    absent = (weights == 0).view(shape + (1,) * (rows.dim() - len(shape)))
    result.update.payloads[name] = rows.masked_fill(absent, 0), weights
    return None
