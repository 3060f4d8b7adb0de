"""The loss of a model over data and its gradient: exact sums over batches.

The loss is the model's own, without weight decay and without a client's corrections. Batches are
loaded anew in every pass, so memory does not grow with the data. Everything is deterministic:
samples are not augmented unless asked, dropout is off, and BatchNorm normalizes by its running
statistics unless told to use those of the batch.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch, total_loss
from fedseg.errors import ConfigError
from fedseg.evaluation.sets import EvaluationSet
from fedseg.optim.sam import adaptive_mask

NORMS = "features", "outputs"


@dataclass(frozen=True)
class Point:
    """A model: parameters and float buffers, flat."""

    name: str
    w: Tensor
    buffers: Tensor


@dataclass(frozen=True)
class Part:
    """Samples that one model sees."""

    plan: list[list[int]]  # sample indices of every batch
    # (w, buffers) -> the same with the client's personal parts (SiloBN, FedBN, FedPer)
    personal: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda *point: point


@dataclass
class Samples:
    """Data D: which samples, in which batches."""

    name: str
    parts: list[Part]  # together all of D
    load: Callable[[list[list[int]]], Iterator[tuple[list[int], Any]]]  # plan -> (indices, batch)
    test: EvaluationSet | None = None  # computes the metrics, if there are any
    weight: int | None = None  # of all batches, once a pass has counted labeled pixels

    def __len__(self) -> int:
        return sum(len(batch) for part in self.parts for batch in part.plan)


class Batch(NamedTuple):
    """A prepared batch, the indices of its samples, and its weight in the mean loss."""

    data: Any
    labels: Tensor | None
    indices: list[int]
    weight: int


class LossSurface:
    """The mean loss L_D of a model over data D, around a point w.

    The mean is over samples; for the pixelwise cross-entropy over labeled pixels, as in one batch.
    What ``flat`` holds is overwritten. BatchNorm normalizes by ``"running"`` or ``"batch"``
    statistics.
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
        other = copy.copy(self)
        other.w = w
        return other

    def __iter__(self) -> Iterator[Batch]:
        """Load the point into the model, and yield every batch."""
        flat = self.flat
        for part in self.data.parts:
            w, buffers = part.personal(self.w, self.buffers)
            flat.w.copy_(w)
            flat.buffers.copy_(buffers)
            for indices, raw in self.data.load(part.plan):
                batch = prepare_batch(flat.model, raw, flat.w.dtype, training=False)
                labels = batch.get("data_samples") if isinstance(batch, Mapping) else None
                weight = len(indices) if self._weigh is None else self._weigh(labels)
                yield Batch(batch, labels, indices, weight)

    @property
    def total(self) -> int:
        """The weight of all batches."""
        if self._weigh is None:
            return len(self.data)
        if self.data.weight is None:  # without a label the loss is 0
            self.data.weight = sum(batch.weight for batch in self) or 1
        return self.data.weight

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model as it is evaluated, without dropout."""
        layers = batchnorm_layers(self.flat.model.train()).values()
        layers = [layer for layer in layers if layer.training]  # some may stay in eval mode
        self.flat.model.eval()
        with batch_statistics(layers) if self.statistics == "batch" else nullcontext():
            yield

    def loss(self, metrics: bool = False) -> tuple[float, dict[str, float]]:
        """L_D(w), and the metrics of the data if asked, which takes a second pass."""
        mean, test = 0.0, self.data.test if metrics else None
        total = self.total  # counted first: counting passes through the data with this model
        with torch.no_grad(), self.evaluating():
            for batch in self:
                loss = total_loss(forward(self.flat.model, batch.data, "loss"))
                mean += float(loss) * batch.weight / total
                if test is not None:
                    predictions = forward(self.flat.model, batch.data, "predict")
                    test.process(batch.indices, batch.data, predictions)
        return mean, test.score() if test is not None else {}

    def gradient(self) -> tuple[Tensor, float]:
        """The gradient of L_D at w, flat, summed in double precision; and L_D(w)."""
        gradient, mean = torch.zeros_like(self.w, dtype=torch.float64), 0.0
        total = self.total
        with torch.enable_grad(), self.evaluating():
            for batch in self:
                loss = total_loss(forward(self.flat.model, batch.data, "loss"))
                self.flat.backward(loss)
                share = batch.weight / total
                gradient.add_(self.flat.grad, alpha=share)
                mean += float(loss.detach()) * share
        return gradient, mean

    def rise(self, rho: float, steps: int = 1, eta: float | None = None) -> tuple[float, float]:
        """``max L(w + eps) - L(w)`` by ascent over ``||eps|| <= rho``, and ``||gradient||`` at w.

        The first step is SAM's own, ``eps = rho g / ||g||`` (Foret et al., ICLR 2021, equation 2);
        further ones add the gradient's direction at ``w + eps``, of length rho too, and return to
        the sphere. The largest loss met counts; it is NaN if one of them is. With ``eta`` it is
        ASAM's scale-invariant measure (Kwon et al., ICML 2021, equation 3): ``||eps / T|| <= rho``
        with ``T = |w| + eta``, 1 for biases. OHEM selects its pixels anew at every point.
        Gradients are of all data.
        """
        w = self.w.double()
        scale = torch.ones_like(w)
        if eta is not None:
            mask = adaptive_mask(self.flat).double()
            scale = mask * (w.abs() + eta) + (1 - mask)
        gradient, start = self.gradient()
        length, highest, eps = float(gradient.norm()), start, torch.zeros_like(w)
        for step in range(steps):
            eps = _scale_to(eps + _scale_to(scale * gradient, rho), rho)
            there = self.at((w + scale * eps).to(self.w.dtype))
            if step + 1 == steps:
                loss = there.loss()[0]
            else:
                gradient, loss = there.gradient()
            highest = float(np.maximum(highest, loss))  # NaN if either is
        return highest - start, length

    def feature_norms(self) -> dict[str, dict[int, float]]:
        """Mean norms of a classifier's last ``features`` and of its ``outputs``, by class.

        As in Caldarola et al., ECCV 2022, figure 7.
        """
        model, norms_of = self.flat.model, {kind: defaultdict(list) for kind in NORMS}
        if not hasattr(model, "features"):
            raise ConfigError(
                f"features: {type(model).__name__} is not an image classifier: it has no features "
                "with a norm"
            )
        with torch.no_grad(), self.evaluating():
            for batch in self:
                features, labels = model.features(batch.data["inputs"]), batch.labels
                labels = labels.argmax(1) if labels.dim() > 1 else labels  # soft ones: mixup
                for kind, vectors in zip(
                    NORMS, (features, model.classifier(features)), strict=True
                ):
                    pairs = zip(labels.tolist(), vectors.norm(dim=1).tolist(), strict=True)
                    for label, norm in pairs:
                        norms_of[kind][label].append(norm)
        return {
            kind: {label: sum(norms) / len(norms) for label, norms in sorted(of.items())}
            for kind, of in norms_of.items()
        }


def _scale_to(vector: Tensor, length: float) -> Tensor:
    norm = vector.norm()
    return vector * (length / norm) if norm > 0 else vector
