"""Where a landscape lies: an origin and directions in the space of parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedseg.core.flat import FlatModel
from fedseg.curvature.surface import Point
from fedseg.errors import DataError


@dataclass(frozen=True)
class Directions:
    """The points ``origin + sum_i c_i axes[i]``; BatchNorm's statistics move along with them.

    Attributes:
        axes: vectors like ``w``.
        buffer_axes: changes of the float buffers, one for each axis; none: they stay.
    """

    origin: Point
    axes: Sequence[Tensor]
    buffer_axes: Sequence[Tensor] = ()

    def at(self, coordinates: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Parameters and float buffers, added in double precision."""
        vectors = []
        for start, axes in ((self.origin.w, self.axes), (self.origin.buffers, self.buffer_axes)):
            moved = start.double()
            for c, axis in zip(coordinates, axes, strict=False):
                moved = moved + c * axis.double()
            vectors.append(moved.to(start.dtype))
        return vectors[0], vectors[1]

    def project(self, w: Tensor) -> tuple[list[float], float]:
        """Coordinates of a model's projection on orthonormal axes, and its distance from them."""
        away = w.double() - self.origin.w.double()
        coordinates = [float(away @ axis.double()) for axis in self.axes]
        for c, axis in zip(coordinates, self.axes, strict=True):
            away = away - c * axis.double()
        return coordinates, float(away.norm())


def line(a: Point, b: Point) -> Directions:
    """``gamma w_a + (1 - gamma) w_b`` (FedGloSS, figure 9)."""
    return Directions(b, [a.w.double() - b.w.double()], [a.buffers.double() - b.buffers.double()])


def plane(first: Point, second: Point, third: Point) -> Directions:
    """The plane through three models (Caldarola et al., ECCV 2022, appendix C.3).

    ``u = th2 - th1`` and ``v = (th3 - th1) - <th3 - th1, u> / ||u||^2 u``, both of length 1; th1 is
    the origin.

    Raises:
        DataError: the models lie on a line.
    """
    u, v = (other.w.double() - first.w.double() for other in (second, third))
    bu, bv = (other.buffers.double() - first.buffers.double() for other in (second, third))
    length = v.norm()
    share = (v @ u) / (u @ u) if u.any() else u.new_tensor(0.0)
    v, bv = v - share * u, bv - share * bu
    if u.norm() == 0 or v.norm() <= 1e-6 * length:
        raise DataError(
            f"{first.name}, {second.name}, {third.name}: lie on a line and make no plane; name "
            "three different models"
        )
    return Directions(first, [u / u.norm(), v / v.norm()], [bu / u.norm(), bv / v.norm()])


def random_directions(
    flat: FlatModel, point: Point, count: int, rng: np.random.Generator
) -> Directions:
    """Gaussian directions whose filters are as long as the model's (Li et al., NeurIPS 2018).

    A filter is the part of a weight that makes one output; biases and the parameters of
    normalizations do not move. The same generator gives every model the same draws.
    """
    axes = []
    for _ in range(count):
        axis = torch.zeros_like(point.w, dtype=torch.float64)
        for slot in flat.slots:
            draw = torch.from_numpy(rng.standard_normal(tuple(slot.shape))).to(axis)
            if len(slot.shape) > 1:
                weight = slot.view(point.w).double()
                lengths = weight.flatten(1).norm(dim=1) / draw.flatten(1).norm(dim=1)
                slot.view(axis).copy_(draw * lengths.view(-1, *[1] * (draw.dim() - 1)))
        axes.append(axis)
    return Directions(point, axes)


def along(point: Point, axes: Sequence[Tensor]) -> Directions:
    """Along given vectors, normalized: eigenvectors of the Hessian."""
    return Directions(point, [axis.double() / axis.double().norm() for axis in axes])


def barrier(gammas: Sequence[float], losses: Sequence[float]) -> float:
    """Height of the loss between two models above the straight line between their losses.

    The largest ``L(gamma) - (gamma L_a + (1 - gamma) L_b)`` over gamma in [0, 1]; at least 0.

    Args:
        gammas: ascending, with 0 (model b) and 1 (model a) among them.
    """
    g, loss = np.asarray(gammas, dtype=float), np.asarray(losses, dtype=float)
    at_b, at_a = loss[np.argmin(abs(g))], loss[np.argmin(abs(g - 1))]
    inside = (g >= -1e-12) & (g <= 1 + 1e-12)
    return float(np.max((loss - (g * at_a + (1 - g) * at_b))[inside]))
