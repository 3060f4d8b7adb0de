"""Exact products of the Hessian with vectors.

Networks with ReLU have a Hessian almost everywhere; that of OHEM is the one with the pixels
selected at the point itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, total_loss
from fedseg.curvature.surface import Batch, LossSurface
from fedseg.errors import TrainingError


class Products:
    """``H v`` for float64 arrays [n], n the number of parameters, without the flat vector's gaps.

    A product is computed in the model's precision, by a backward pass through the gradient, and
    summed over batches in double precision.

    Args:
        surface: the loss, around the model.
        tick: called after every product.

    Attributes:
        n: the number of parameters.
        count: of the products so far.
    """

    def __init__(self, surface: LossSurface, tick: Callable[[], None] = lambda: None) -> None:
        flat = surface.flat
        parameters = dict(flat.model.named_parameters())
        self._surface = surface
        self._tick = tick
        self._parameters = [parameters[slot.name] for slot in flat.slots]
        self.n = flat.num_parameters
        self.count = 0

    def __call__(self, v: np.ndarray) -> np.ndarray:
        surface = self._surface
        vectors = split(surface.flat, torch.from_numpy(np.asarray(v).reshape(-1)).to(surface.w))
        product = torch.zeros(self.n, dtype=torch.float64, device=surface.w.device)
        total = surface.total
        with torch.enable_grad(), twice_differentiable(surface.flat.model), surface.evaluating():
            for batch in surface:
                parts = self._multiply(batch, vectors)
                flat = torch.cat([part.reshape(-1) for part in parts])
                product.add_(flat.to(torch.float64), alpha=batch.weight / total)
        if not product.isfinite().all():
            raise TrainingError("the Hessian has no finite product: is the model's loss finite?")
        self.count += 1
        self._tick()
        return product.cpu().numpy()

    def _multiply(self, batch: Batch, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The product of the Hessian of a batch's loss, by parameter."""
        loss = total_loss(forward(self._surface.flat.model, batch.data, "loss"))
        options = {"allow_unused": True, "materialize_grads": True}
        gradients = grad(loss, self._parameters, create_graph=True, **options)
        pairs = [(g, v) for g, v in zip(gradients, vectors, strict=True) if g.requires_grad]
        if not pairs:  # the gradient does not depend on the parameters
            return [torch.zeros_like(parameter) for parameter in self._parameters]
        slopes, directions = zip(*pairs, strict=True)
        return grad(slopes, self._parameters, directions, **options)


@contextmanager
def twice_differentiable(model: nn.Module) -> Iterator[None]:
    """Compute attention by plain operations: fused ones have one derivative.

    GroupNorm's second derivative wants contiguous images.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    hooks = [n.register_forward_pre_hook(lambda _, x: (x[0].contiguous(),)) for n in norms]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for hook in hooks:
            hook.remove()


def split(flat: FlatModel, vector: Tensor) -> list[Tensor]:
    """The parameters' parts, in their shapes, of a vector [n] without gaps."""
    parts = vector.split([slot.numel for slot in flat.slots])
    return [part.view(slot.shape) for part, slot in zip(parts, flat.slots, strict=True)]


def expand(flat: FlatModel, array: np.ndarray) -> Tensor:
    """A vector like ``flat.w``, in its precision, from float64 [n] without gaps."""
    vector = torch.zeros_like(flat.w)
    parts = split(flat, torch.from_numpy(np.ascontiguousarray(array)).to(flat.w))
    for slot, part in zip(flat.slots, parts, strict=True):
        slot.view(vector).copy_(part)
    return vector
