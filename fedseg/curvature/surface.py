"""The loss of a model over data, its gradient and curvature: exact sums over batches.

The loss is the model's own, without weight decay and without a client's corrections. Batches are
made anew at every pass, so memory does not grow with the data. Everything is deterministic: samples
are not augmented unless asked, dropout is off, and BatchNorm normalizes by its running statistics
unless told to use those of the batch. Networks with ReLU have a Hessian almost everywhere; that of
OHEM is the one with the pixels selected at the point itself.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from curvlinops import GGNLinearOperator, HessianLinearOperator
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedseg.core.arithmetic import accumulate
from fedseg.core.batchnorm import batch_statistics
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch, total_loss
from fedseg.core.server import accumulation_dtype
from fedseg.errors import ConfigError
from fedseg.evaluation.sets import EvaluationSet
from fedseg.models.losses import PixelLoss

Personal = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
STATISTICS = ("running", "batch")


@dataclass(frozen=True)
class Part:
    """Samples that one model sees.

    Attributes:
        plan: sample indices of every batch.
        personal: (w, buffers) -> the same with what a client keeps to itself (SiloBN, FedBN).
    """

    plan: list[list[int]]
    personal: Personal = lambda w, buffers: (w, buffers)


@dataclass(frozen=True)
class Samples:
    """Data D: which samples, in which batches.

    Attributes:
        name: for the reader. parts: together all of D.
        load: plan -> (indices, batch) of every batch.
        test: counts the predictions; None: there are no metrics.
    """

    name: str
    parts: list[Part]
    load: Callable[[list[list[int]]], Iterator[tuple[list[int], Any]]]
    test: EvaluationSet | None = None

    def __len__(self) -> int:
        return sum(len(batch) for part in self.parts for batch in part.plan)


class LossSurface:
    """The mean loss L_D of a model over data D, around a point w.

    The mean is over samples; for the pixelwise cross-entropy over labeled pixels, as in one batch.

    Args:
        flat: the model; what it holds is overwritten.
        data: D.
        w, buffers: the point, flat.
        statistics: what BatchNorm normalizes by, ``"running"`` or ``"batch"``.
    """

    def __init__(
        self,
        flat: FlatModel,
        data: Samples,
        w: Tensor,
        buffers: Tensor,
        statistics: str = "running",
    ) -> None:
        self.flat, self.data, self.w, self.buffers = flat, data, w, buffers
        self.statistics = statistics
        self._weigh = getattr(getattr(flat.model, "criterion", None), "weight", None)

    def at(self, w: Tensor, buffers: Tensor | None = None) -> "LossSurface":
        """The same loss around another point."""
        other = copy.copy(self)
        other.w, other.buffers = w, self.buffers if buffers is None else buffers
        return other

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Tensor]]:
        """Every batch with its labels, the model holding the point in the meantime."""
        flat = self.flat
        for part in self.data.parts:
            w, buffers = part.personal(self.w, self.buffers)
            flat.w.copy_(w)
            flat.buffers.copy_(buffers)
            for indices, raw in self.data.load(part.plan):
                batch = prepare_batch(flat.model, raw, flat.w.dtype, training=False)
                labels = batch.get("data_samples") if isinstance(batch, Mapping) else None
                weight = len(indices) if self._weigh is None else self._weigh(labels)
                labels = torch.zeros(0) if labels is None else labels
                yield {"batch": batch, "indices": indices, "weight": weight}, labels

    @cached_property
    def total(self) -> int:
        """What all batches weigh."""
        return len(self.data) if self._weigh is None else sum(x["weight"] for x, _ in self)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        model = self.flat.model.eval()
        with batch_statistics(model) if self.statistics == "batch" else nullcontext():
            yield

    def loss(self, metrics: bool = False) -> tuple[float, dict[str, float]]:
        """L_D(w), and the metrics of the data if asked, which takes a second pass."""
        total, test = 0.0, self.data.test if metrics else None
        with torch.no_grad(), self._evaluating():
            for x, _ in self:
                loss = total_loss(forward(self.flat.model, x["batch"], "loss"))
                total += float(loss) * x["weight"] / self.total
                if test is not None:
                    predictions = forward(self.flat.model, x["batch"], "predict")
                    test.process(x["indices"], x["batch"], predictions)
        return total, test.score() if test is not None else {}

    def gradient(self) -> tuple[Tensor, float]:
        """The gradient of L_D at w, flat, summed in double precision; and L_D(w)."""
        total, mean = torch.zeros_like(self.w, dtype=accumulation_dtype(self.w.device)), 0.0
        with torch.enable_grad(), self._evaluating():
            for x, _ in self:
                loss = total_loss(forward(self.flat.model, x["batch"], "loss"))
                self.flat.backward(loss)
                share = x["weight"] / self.total
                accumulate(total, self.flat.grad, share)
                mean += float(loss.detach()) * share
        return total, mean

    def products(
        self, kind: str = "hessian", tick: Callable[[], None] = lambda: None
    ) -> "Products":
        """Products with the ``"hessian"`` of L_D, or its Gauss-Newton matrix (``"ggn"``)."""
        return Products(self, kind, tick)


class Products:
    """``H v`` for float64 arrays [n], n the number of parameters, without the flat vector's gaps.

    The product is computed in the model's precision.

    Attributes:
        n: length of a vector. count: products so far.
    """

    def __init__(self, surface: LossSurface, kind: str, tick: Callable[[], None]) -> None:
        flat = surface.flat
        self._surface, self._tick, self.n, self.count = surface, tick, flat.num_parameters, 0
        parameters = dict(flat.model.named_parameters())
        parts = _WholeLoss(flat.model), _AsGiven()
        if kind == "ggn":
            if not hasattr(flat.model, "losses"):
                raise ConfigError(
                    f"model: {type(flat.model).__name__} does not tell outputs from losses, which "
                    "Gauss-Newton products need"
                )
            parts = (outputs := _Outputs(flat.model)), _LossOfOutputs(outputs)
        operator = GGNLinearOperator if kind == "ggn" else _Hessian
        self._operator = operator(
            *parts,
            [parameters[slot.name] for slot in flat.slots],
            surface,
            check_deterministic=False,
            num_data=surface.total,
            batch_size_fn=lambda x: x["weight"],
        )

    def __call__(self, v: np.ndarray) -> np.ndarray:
        w = self._surface.w
        vector = torch.from_numpy(np.asarray(v).reshape(-1)).to(w)
        with twice_differentiable(self._surface.flat.model), self._surface._evaluating():
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


def compact(flat: FlatModel, vector: Tensor) -> np.ndarray:
    """A vector like ``flat.w`` as float64 [n], parameter by parameter, without gaps."""
    parts = [slot.view(vector).reshape(-1) for slot in flat.slots]
    return torch.cat(parts).double().cpu().numpy()


def expand(flat: FlatModel, array: np.ndarray) -> Tensor:
    """The inverse of :func:`compact`: a vector like ``flat.w``, in its precision."""
    vector, start = torch.zeros_like(flat.w), 0
    values = torch.from_numpy(np.ascontiguousarray(array)).to(flat.w)
    for slot in flat.slots:
        slot.view(vector).copy_(values[start : start + slot.numel].view(slot.shape))
        start += slot.numel
    return vector


class _Hessian(HessianLinearOperator):
    """By a backward pass through the gradient.

    curvlinops differentiates the gradient forward, which costs the same, but which PyTorch cannot do
    for GroupNorm and others.
    """

    def _matmat_batch(self, X: Any, y: Tensor, M: list[Tensor]) -> list[Tensor]:
        with torch.enable_grad():
            loss = self._loss_func(self._model_func(X), y)
            options = {"allow_unused": True, "materialize_grads": True}
            first = torch.autograd.grad(loss, self._params, create_graph=True, **options)
        curved = [n for n, gradient in enumerate(first) if gradient.requires_grad]
        columns = []
        for column in range(M[0].shape[-1]):
            columns.append(
                torch.autograd.grad(
                    [first[n] for n in curved],
                    self._params,
                    [M[n][..., column] for n in curved],
                    retain_graph=True,
                    **options,
                )
                if curved
                else [torch.zeros_like(m[..., 0]) for m in M]
            )
        return [torch.stack(parts, -1) for parts in zip(*columns, strict=True)]


class _WholeLoss(nn.Module):
    """Model and loss as one "model", so that any loss has a Hessian."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Mapping[str, Any]) -> Tensor:
        return total_loss(forward(self.model, x["batch"], "loss"))


class _AsGiven(nn.Module):
    reduction = "mean"

    def forward(self, loss: Tensor, labels: Tensor) -> Tensor:
        return loss


class _Outputs(nn.Module):
    """All outputs of the network in one vector, as curvlinops wants them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.shapes: list[torch.Size] = []

    def forward(self, x: Mapping[str, Any]) -> Tensor:
        outputs = self.model.outputs(x["batch"]["inputs"])
        self.shapes = [output.shape for output in outputs]
        return torch.cat([output.flatten() for output in outputs])


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
