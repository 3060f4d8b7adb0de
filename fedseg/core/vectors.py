"""Arithmetic of flat vectors: what the equations of several algorithms share."""

import math

import torch
from torch import Tensor


def descend(w: Tensor, step: Tensor) -> None:
    """``w <- w - step``, subtracted in the precision of ``step`` and rounded once; both 1-D."""
    w.sub_(step)


def finite_norm(vector: Tensor) -> float | None:
    """The norm of a 1-D vector; None if an element is not finite."""
    if not vector.numel():
        return 0.0  # without waiting for a device
    # a NaN or an infinity survives the square; squares overflow long before elements do
    square = float(torch.dot(vector, vector))
    if math.isfinite(square):
        return math.sqrt(square)
    largest = float(vector.abs().max())
    if not math.isfinite(largest):
        return None
    return largest * float((vector / largest).norm())


def squared_norm(vector: Tensor) -> float:
    """``||vector||^2``, summed in float64; waits for the device."""
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64)) ** 2


def scale_to_norm(radius: float, norm: Tensor) -> Tensor:
    """``radius / norm`` as a 0-d tensor, 0 where the norm is 0 (no perturbation, no NaN)."""
    return torch.where(norm > 0, radius / norm, torch.zeros_like(norm))


def linear_warmup(start: float | None, end: float, rounds: int, round_: int) -> float:
    """A rho schedule: from ``start`` in round 1 linearly to ``end`` after ``rounds`` rounds.

    FedGloSS, appendix C (``rho_0``, ``rho``, ``T_s``), as released: the appendix's formula would
    begin a step later, at ``rho_0 + (rho - rho_0) / T_s``. Constant ``end`` if ``rounds`` is 0.
    """
    if start is None or rounds <= 0:
        return end
    return start + (end - start) * min(1.0, (round_ - 1) / rounds)
