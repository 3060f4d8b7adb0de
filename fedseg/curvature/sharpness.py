"""Sharpness as the rise of the loss near a model, by gradient ascent."""

import numpy as np
import torch
from torch import Tensor

from fedseg.curvature.surface import LossSurface
from fedseg.optim.sam import adaptive_mask


def sam_sharpness(surface: LossSurface, rho: float, steps: int = 1) -> float:
    """``max L(w + eps) - L(w)`` over ``||eps|| <= rho`` (Foret et al., ICLR 2021, equation 2).

    See :func:`_highest_rise` for the ascent.

    Args:
        surface: the loss, around w.
        rho: radius.
        steps: of the ascent; the first one is SAM's own.
    """
    return _highest_rise(surface, torch.ones_like(surface.w, dtype=torch.float64), rho, steps)


def asam_sharpness(surface: LossSurface, rho: float, eta: float, steps: int = 1) -> float:
    """ASAM's scale-invariant sharpness (Kwon et al., ICML 2021, equation 3).

    ``max L(w + eps) - L(w)`` over ``||eps / T|| <= rho`` with ``T = |w| + eta``, 1 for biases.

    Args:
        surface: the loss, around w.
        rho: radius.
        eta: added to the parameters' sizes.
        steps: of the ascent; the first one is ASAM's own.
    """
    mask = adaptive_mask(surface.flat).double()
    scale = mask * (surface.w.double().abs() + eta) + (1 - mask)
    return _highest_rise(surface, scale, rho, steps)


def _highest_rise(surface: LossSurface, scale: Tensor, rho: float, steps: int) -> float:
    """The largest rise of the loss met in an ascent over ``w + scale * eps``, ``||eps|| <= rho``.

    The first step is ``eps = rho g / ||g||``; further ones add the gradient's direction at the
    present place, of length rho too, and return to the sphere. The rise is NaN if one of the losses
    is. Gradients are of all data; OHEM selects its pixels anew at every place.
    """
    w = surface.w.double()
    gradient, start = surface.gradient()
    highest = start
    eps = torch.zeros_like(w)
    for step in range(steps):
        eps = _scale_to(eps + _scale_to(scale * gradient, rho), rho)
        moved = surface.at((w + scale * eps).to(surface.w.dtype))
        if step + 1 == steps:
            loss = moved.loss()
        else:
            gradient, loss = moved.gradient()
        highest = float(np.maximum(highest, loss))  # NaN if either is
    return highest - start


def _scale_to(vector: Tensor, length: float) -> Tensor:
    norm = vector.norm()
    return vector * (length / norm) if norm > 0 else vector
