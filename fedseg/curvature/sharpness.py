"""Sharpness as sharpness-aware training sees it: how far the loss rises near a point."""

import numpy as np
import torch
from torch import Tensor

from fedseg.curvature.surface import LossSurface
from fedseg.optim.sam import adaptive_mask


def rise(
    surface: LossSurface, rho: float, steps: int = 1, eta: float | None = None
) -> tuple[float, float]:
    """``max L(w + eps) - L(w)`` by ascent over ``||eps|| <= rho``, and ``||gradient||`` at w.

    The first step is SAM's own, ``eps = rho g / ||g||`` (Foret et al., ICLR 2021, equation 2);
    further ones add the gradient's direction at ``w + eps``, of length rho too, and return to the
    sphere. The largest loss met counts; it is NaN if one of them is. With ``eta`` it is ASAM's
    scale-invariant measure (Kwon et al., ICML 2021, equation 3): ``||eps / T|| <= rho`` with
    ``T = |w| + eta``, 1 for biases. OHEM selects its pixels anew at every point. Gradients are of
    all data.
    """
    w = surface.w.double()
    scale = torch.ones_like(w)
    if eta is not None:
        mask = adaptive_mask(surface.flat).double()
        scale = mask * (w.abs() + eta) + (1 - mask)
    gradient, start = surface.gradient()
    length, highest, eps = float(gradient.norm()), start, torch.zeros_like(w)
    for step in range(steps):
        eps = _on_sphere(eps + _on_sphere(scale * gradient, rho), rho)
        there = surface.at((w + scale * eps).to(surface.w.dtype))
        if step + 1 == steps:
            loss = there.loss()[0]
        else:
            gradient, loss = there.gradient()
        highest = float(np.maximum(highest, loss))  # NaN if either is
    return highest - start, length


def _on_sphere(vector: Tensor, radius: float) -> Tensor:
    length = vector.norm()
    return vector * (radius / length) if length > 0 else vector
