"""Products of the Hessian and of the Gauss-Newton matrix with vectors, by curvlinops."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from curvlinops import GGNLinearOperator, HessianLinearOperator
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedseg.core.forward import forward, total_loss
from fedseg.errors import ConfigError
from fedseg.models.losses import PixelLoss


class Products:
    """``H v`` for float64 arrays [n], n the number of parameters, without the flat vector's gaps.

    The product is computed in the model's precision.

    Args:
        surface: L_D and the point, a :class:`fedseg.curvature.surface.LossSurface`.
        kind: ``"hessian"``, or ``"ggn"`` for the Gauss-Newton matrix.
        tick: called after every product.

    Attributes:
        n: length of a vector. count: products so far.
    """

    def __init__(self, surface: Any, kind: str, tick: Callable[[], None]) -> None:
        flat = surface.flat
        self._surface, self._tick, self.n, self.count = surface, tick, flat.num_parameters, 0
        if kind == "ggn" and not hasattr(flat.model, "losses"):
            raise ConfigError(
                f"model: {type(flat.model).__name__} does not tell outputs from losses, which "
                "Gauss-Newton products need"
            )
        outputs = _Outputs(flat.model)
        parameters = dict(flat.model.named_parameters())
        operator = GGNLinearOperator if kind == "ggn" else _Hessian
        self._operator = operator(
            outputs,
            _LossOfOutputs(outputs),
            [parameters[slot.name] for slot in flat.slots],
            surface,
            check_deterministic=False,
            num_data=surface.total,
            batch_size_fn=lambda x: x["weight"],
        )

    def __call__(self, v: np.ndarray) -> np.ndarray:
        vector = torch.from_numpy(np.asarray(v).reshape(-1)).to(self._surface.w)
        with twice_differentiable(self._surface.flat.model), self._surface.evaluating():
            product = self._operator @ vector
        self.count += 1
        self._tick()
        return product.double().cpu().numpy()


@contextmanager
def twice_differentiable(model: nn.Module) -> Iterator[None]:
    """Compute pixel losses and attention by plain operations: fused ones have one derivative.

    GroupNorm's second derivative wants contiguous images.
    """
    losses = [module for module in model.modules() if isinstance(module, PixelLoss)]
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    hooks = [n.register_forward_pre_hook(lambda _, x: (x[0].contiguous(),)) for n in norms]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for loss in losses:
            loss.forward = loss.differentiable
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for loss in losses:
            vars(loss).pop("forward", None)
        for hook in hooks:
            hook.remove()


class _Hessian(HessianLinearOperator):
    """Of any loss that a model gives, by a backward pass through the gradient.

    curvlinops differentiates the gradient forward; PyTorch cannot do that for GroupNorm and others.
    """

    def _matmat_batch(self, X: Any, y: Tensor, M: list[Tensor]) -> list[Tensor]:
        with torch.enable_grad():
            loss = total_loss(forward(self._model_func.model, X["batch"], "loss"))
            options = {"allow_unused": True, "materialize_grads": True}
            first = torch.autograd.grad(loss, self._params, create_graph=True, **options)
            curved = [n for n, gradient in enumerate(first) if gradient.requires_grad]
            if not curved:
                return [torch.zeros_like(m) for m in M]
            chosen = [first[n] for n in curved], [M[n][..., 0] for n in curved]  # M is one vector
            second = torch.autograd.grad(chosen[0], self._params, chosen[1], **options)
        return [part.unsqueeze(-1) for part in second]


class _Outputs(nn.Module):
    """All outputs of the network in one vector, as curvlinops wants them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.shapes: list[torch.Size] = []

    def forward(self, x: Mapping[str, Any]) -> Tensor:
        outputs = self.model.outputs(x["batch"]["inputs"])
        self.shapes = [output.shape for output in outputs]
        every = sum(p.sum() for p in self.model.parameters() if p.requires_grad)
        # curvlinops fails for a parameter that no output depends on
        return torch.cat([output.flatten() for output in outputs]) + 0 * every


class _LossOfOutputs(nn.Module):
    reduction = "mean"

    def __init__(self, outputs: _Outputs) -> None:
        super().__init__()
        self._outputs = [outputs]  # in a list: its parameters are not the loss's

    def forward(self, vector: Tensor, labels: Tensor) -> Tensor:
        (outputs,) = self._outputs
        parts = vector.split([shape.numel() for shape in outputs.shapes])
        logits = [part.view(shape) for part, shape in zip(parts, outputs.shapes, strict=True)]
        return total_loss(outputs.model.losses(logits, labels))
