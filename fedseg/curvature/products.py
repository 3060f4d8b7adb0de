"""Exact products of the Hessian and of the Gauss-Newton matrix with vectors.

Networks with ReLU have a Hessian almost everywhere; that of OHEM is the one with the pixels
selected at the point itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, total_loss
from fedseg.curvature.surface import Batch, LossSurface
from fedseg.errors import ConfigError


class Products:
    """``H v`` for float64 arrays [n], n the number of parameters, without the flat vector's gaps.

    The product is computed in the model's precision, and summed over batches in double precision.
    ``"ggn"`` is the Gauss-Newton matrix; ``tick`` is called after every product, ``count`` of them.
    """

    def __init__(
        self, surface: LossSurface, kind: str = "hessian", tick: Callable[[], None] = lambda: None
    ) -> None:
        flat = surface.flat
        self._surface, self._tick, self.n, self.count = surface, tick, flat.num_parameters, 0
        if kind == "ggn" and not hasattr(flat.model, "losses"):
            raise ConfigError(
                f"model: {type(flat.model).__name__} does not separate outputs from losses, as "
                "Gauss-Newton products need"
            )
        self._multiply = self._gauss_newton if kind == "ggn" else self._hessian
        parameters = dict(flat.model.named_parameters())
        self._parameters = [parameters[slot.name] for slot in flat.slots]

    def __call__(self, v: np.ndarray) -> np.ndarray:
        surface = self._surface
        vectors = split(surface.flat, torch.from_numpy(np.asarray(v).reshape(-1)).to(surface.w))
        dtype = torch.float64
        product = torch.zeros(self.n, dtype=dtype, device=surface.w.device)
        total = surface.total
        with torch.enable_grad(), twice_differentiable(surface.flat.model), surface.evaluating():
            for batch in surface:
                parts = self._multiply(batch, vectors)
                flat = torch.cat([part.reshape(-1) for part in parts])
                product.add_(flat.to(dtype), alpha=batch.weight / total)
        self.count += 1
        self._tick()
        return product.double().cpu().numpy()

    def _hessian(self, batch: Batch, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """By a backward pass through the gradient."""
        loss = total_loss(forward(self._surface.flat.model, batch.data, "loss"))
        return _pull_back(_gradients(loss, self._parameters), self._parameters, vectors)

    def _gauss_newton(self, batch: Batch, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """``J^T (d^2 loss / d outputs^2) J v``; J v by differentiating ``J^T u``, linear in u."""
        model = self._surface.flat.model
        outputs = model.outputs(batch.data["inputs"])
        u = [torch.zeros_like(output, requires_grad=True) for output in outputs]
        moved = _pull_back(_gradients(outputs, self._parameters, u), u, vectors)
        leaves = [output.detach().requires_grad_() for output in outputs]
        slopes = _gradients(total_loss(model.losses(leaves, batch.labels)), leaves)
        curved = _pull_back(slopes, leaves, moved)
        return _gradients(outputs, self._parameters, curved, create_graph=False)


_gradients = partial(grad, create_graph=True, allow_unused=True, materialize_grads=True)


def _pull_back(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Vector-Jacobian products, where some of the outputs do not depend on the inputs."""
    pairs = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
    if not pairs:
        return [torch.zeros_like(tensor) for tensor in inputs]
    outputs, vectors = zip(*pairs, strict=True)
    return _gradients(outputs, inputs, vectors, create_graph=False)


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
