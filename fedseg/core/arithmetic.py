"""Sums over long vectors in two precisions, a block at a time.

PyTorch converts the operand of a mixed sum into new memory. For a whole model that costs more than
the arithmetic; a block of it stays in the cache, on the CPU.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 1 << 17  # smaller ones cost calls, larger ones cache


def _blocks(vector: Tensor) -> Iterator[slice]:
    length = vector.numel()
    size = BLOCK if vector.device.type == "cpu" and length > 2 * BLOCK else max(length, 1)
    for start in range(0, length, size):
        yield slice(start, start + size)


def accumulate(total: Tensor, terms: Sequence[tuple[Tensor, float]], begin: bool = False) -> None:
    """``total <- total + weight vector`` for one (vector, weight) after the other; all 1-D.

    In the precision of ``total``, which is read and written once for all of them, or with ``begin``
    only written: it counts as zeros.
    """
    for block in _blocks(total):
        part = total[block]
        if begin:
            vector, weight = terms[0]
            part.copy_(vector[block]).mul_(weight)
        for vector, weight in terms[begin:]:
            part.add_(vector[block], alpha=weight)


def descend(w: Tensor, step: Tensor) -> None:
    """``w <- w - step``, subtracted in the precision of ``step`` and rounded once; both 1-D."""
    for block in _blocks(w):
        w[block].sub_(step[block])


def finite_norm(vector: Tensor) -> float | None:
    """The norm of a 1-D vector; None if an element is not finite."""
    if not vector.numel():
        return 0.0  # without waiting for a device
    # a NaN or an infinity survives the square; squares overflow long before elements do
    square = float(torch.dot(vector, vector))
    if math.isfinite(square):
        return math.sqrt(square)
    largest = float(vector.abs().max())
    return largest * float((vector / largest).norm()) if math.isfinite(largest) else None
