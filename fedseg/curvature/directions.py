"""Where the points of a landscape lie: on a line, in a plane, or around a model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedseg.core.flat import FlatModel
from fedseg.curvature.products import Products, expand
from fedseg.curvature.spectrum import largest
from fedseg.curvature.surface import LossSurface, Point
from fedseg.errors import DataError


@dataclass(frozen=True)
class Directions:
    """The points ``origin + sum_i c_i axes[i]``.

    Attributes:
        origin: the model with all coordinates 0.
        axes: directions, like ``w``.
        buffer_axes: changes of the float buffers along them: BatchNorm's statistics move along
            with the parameters; none: they stay.
    """

    origin: Point
    axes: Sequence[Tensor]
    buffer_axes: Sequence[Tensor] = ()

    def at(self, coordinates: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Parameters and float buffers, added in double precision."""
        w = _moved(self.origin.w, coordinates, self.axes)
        buffers = self.origin.buffers
        if self.buffer_axes:
            buffers = _moved(buffers, coordinates, self.buffer_axes)
        return w, buffers

    def project(self, w: Tensor) -> tuple[list[float], float]:
        """Coordinates of a model's projection on orthonormal axes, and its distance from them."""
        away = w.double() - self.origin.w.double()
        coordinates = [float(away @ axis.double()) for axis in self.axes]
        for c, axis in zip(coordinates, self.axes, strict=True):
            away = away - c * axis.double()
        return coordinates, float(away.norm())


def _moved(start: Tensor, coordinates: Sequence[float], axes: Sequence[Tensor]) -> Tensor:
    moved = start.double()
    for c, axis in zip(coordinates, axes, strict=True):
        moved = moved + c * axis.double()
    return moved.to(start.dtype)


def line(a: Point, b: Point) -> Directions:
    """``gamma w_a + (1 - gamma) w_b`` (FedGloSS, figure 9)."""
    return Directions(b, [a.w.double() - b.w.double()], [a.buffers.double() - b.buffers.double()])


def barrier(gammas: Sequence[float], losses: Sequence[float]) -> float:
    """Largest ``L(gamma) - (gamma L_a + (1 - gamma) L_b)`` over gamma from 0 (b) to 1 (a)."""
    gammas = np.asarray(gammas, dtype=float)
    losses = np.asarray(losses, dtype=float)
    return float(np.max(losses - (gammas * losses[-1] + (1 - gammas) * losses[0])))


def plane(first: Point, second: Point, third: Point) -> Directions:
    """The plane through three models (Caldarola et al., ECCV 2022, appendix C.3).

    ``u = th2 - th1`` and ``v = (th3 - th1) - <th3 - th1, u> / ||u||^2 u``, both of length 1; th1 is
    the origin. DataError if the models lie on a line.
    """
    u = second.w.double() - first.w.double()
    v = third.w.double() - first.w.double()
    buffer_u = second.buffers.double() - first.buffers.double()
    buffer_v = third.buffers.double() - first.buffers.double()
    distance = v.norm()
    share = (v @ u) / (u @ u) if u.any() else u.new_tensor(0.0)
    v = v - share * u
    buffer_v = buffer_v - share * buffer_u
    if u.norm() == 0 or v.norm() <= 1e-6 * distance:
        raise DataError(
            f"{first.name}, {second.name}, {third.name}: are on one line and span no plane; name "
            "three different models"
        )
    axes = [u / u.norm(), v / v.norm()]
    return Directions(first, axes, [buffer_u / u.norm(), buffer_v / v.norm()])


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


def eigenvectors(surface: LossSurface, point: Point, rng: np.random.Generator) -> Directions:
    """The eigenvectors of the two largest eigenvalues of the Hessian (FedAlign, figure 1)."""
    axes = []
    for vector in largest(Products(surface), 2, rng).vectors.T:
        axis = expand(surface.flat, vector).double()
        axes.append(axis / axis.norm())
    return Directions(point, axes)
