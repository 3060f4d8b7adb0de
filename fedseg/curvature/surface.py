"""The loss of a model over data, its gradient and curvature: exact sums over batches.

The loss is the model's own, without weight decay and without a client's corrections. Batches are
made anew at every pass, so memory does not grow with the data. Everything is deterministic: samples
are not augmented unless asked, dropout is off, and BatchNorm normalizes by its running statistics
unless told to use those of the batch. Networks with ReLU have a Hessian almost everywhere; that of
OHEM is the one with the pixels selected at the point itself.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.core.arithmetic import accumulate
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch, total_loss
from fedseg.core.server import accumulation_dtype
from fedseg.errors import ConfigError
from fedseg.evaluation.sets import EvaluationSet


@dataclass(frozen=True)
class Point:
    """A model: parameters and float buffers, flat."""

    name: str
    w: Tensor
    buffers: Tensor


@dataclass(frozen=True)
class Part:
    """Samples that one model sees.

    Attributes:
        plan: sample indices of every batch.
        personal: (w, buffers) -> the same with what a client keeps to itself (SiloBN, FedBN).
    """

    plan: list[list[int]]
    personal: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda *point: point


@dataclass(frozen=True)
class Samples:
    """Data D: which samples, in which batches.

    Attributes:
        name: for the reader. parts: together all of D.
        load: plan -> (indices, batch) of every batch.
        test: counts the predictions; None: there are no metrics.
        weight: what all batches weigh in a loss of pixels, once that is counted.
    """

    name: str
    parts: list[Part]
    load: Callable[[list[list[int]]], Iterator[tuple[list[int], Any]]]
    test: EvaluationSet | None = None
    weight: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(batch) for part in self.parts for batch in part.plan)


class LossSurface:
    """The mean loss L_D of a model over data D, around a point w.

    The mean is over samples; for the pixelwise cross-entropy over labeled pixels, as in one batch.

    Args:
        flat: the model; what it holds is overwritten.
        data: D.
        point: w and its float buffers.
        statistics: what BatchNorm normalizes by, ``"running"`` or ``"batch"``.
    """

    def __init__(
        self, flat: FlatModel, data: Samples, point: Point, statistics: str = "running"
    ) -> None:
        self.flat, self.data, self.statistics = flat, data, statistics
        self.w, self.buffers = point.w, point.buffers
        weigh = getattr(getattr(flat.model, "criterion", None), "weight", None)
        self._weigh = weigh if callable(weigh) else None  # PyTorch's losses call class weights so

    def at(self, w: Tensor) -> "LossSurface":
        """The same loss around other parameters."""
        other = copy.copy(self)  # with the weight of the data
        other.w = w
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
                given = {"batch": batch, "indices": indices, "weight": weight}
                yield given, torch.zeros(0) if labels is None else labels

    @cached_property
    def total(self) -> int:
        """What all batches weigh."""
        if self._weigh is None:
            return len(self.data)
        if not self.data.weight:  # without a label the loss is 0
            self.data.weight.append(sum(x["weight"] for x, _ in self) or 1)
        return self.data.weight[0]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model as it is evaluated, without dropout."""
        layers = batchnorm_layers(self.flat.model.train()).values()
        layers = [one for one in layers if one.training]  # a network may keep some in eval mode
        self.flat.model.eval()
        with batch_statistics(layers) if self.statistics == "batch" else nullcontext():
            yield

    def loss(self, metrics: bool = False) -> tuple[float, dict[str, float]]:
        """L_D(w), and the metrics of the data if asked, which takes a second pass."""
        total, test = 0.0, self.data.test if metrics else None
        whole = self.total  # counted before: counting passes through the data with this model
        with torch.no_grad(), self.evaluating():
            for x, _ in self:
                loss = total_loss(forward(self.flat.model, x["batch"], "loss"))
                total += float(loss) * x["weight"] / whole
                if test is not None:
                    predictions = forward(self.flat.model, x["batch"], "predict")
                    test.process(x["indices"], x["batch"], predictions)
        return total, test.score() if test is not None else {}

    def gradient(self) -> tuple[Tensor, float]:
        """The gradient of L_D at w, flat, summed in double precision; and L_D(w)."""
        total, mean = torch.zeros_like(self.w, dtype=accumulation_dtype(self.w.device)), 0.0
        whole = self.total
        with torch.enable_grad(), self.evaluating():
            for x, _ in self:
                loss = total_loss(forward(self.flat.model, x["batch"], "loss"))
                self.flat.backward(loss)
                share = x["weight"] / whole
                accumulate(total, [(self.flat.grad, share)])
                mean += float(loss.detach()) * share
        return total, mean

    def products(self, kind: str = "hessian", tick: Callable[[], None] = lambda: None) -> Any:
        """A :class:`fedseg.curvature.products.Products`; ConfigError if it cannot be had."""
        try:
            from fedseg.curvature.products import Products
        except ImportError as error:
            raise ConfigError(
                f"{error.name}: is not installed, which Hessian products need: install the extra "
                "'curvature'"
            ) from error
        return Products(self, kind, tick)

    def feature_norms(self) -> dict[int, float]:
        """The mean norm of a classifier's last features by class (ECCV 2022, figure 7).

        Raises:
            ConfigError: the model has no features of whole images.
        """
        if not hasattr(self.flat.model, "features"):
            raise ConfigError(
                f"features: {type(self.flat.model).__name__} is no classifier of images, whose "
                "features have a norm"
            )
        found = defaultdict(list)
        with torch.no_grad(), self.evaluating():
            for x, labels in self:
                norms = self.flat.model.features(x["batch"]["inputs"]).norm(dim=1)
                labels = labels.argmax(1) if labels.dim() > 1 else labels  # soft ones: mixup
                for label, norm in zip(labels.tolist(), norms.tolist(), strict=True):
                    found[label].append(norm)
        return {label: sum(norms) / len(norms) for label, norms in sorted(found.items())}


def expand(flat: FlatModel, array: np.ndarray) -> Tensor:
    """A vector like ``flat.w``, in its precision, from float64 [n] without its gaps."""
    vector = torch.zeros_like(flat.w)
    values = torch.from_numpy(np.ascontiguousarray(array)).to(flat.w)
    for slot, part in zip(flat.slots, values.split([s.numel for s in flat.slots]), strict=True):
        slot.view(vector).copy_(part.view(slot.shape))
    return vector
