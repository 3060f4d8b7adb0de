"""The loss of a model over data and its gradient: exact sums over batches.

The loss is the model's own, without weight decay and without a client's corrections. Batches are
loaded anew in every pass, so memory does not grow with the data. Everything is deterministic:
samples are not augmented, dropout is off, and BatchNorm normalizes by its running statistics unless
it is told to use those of the batch.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch, total_loss
from fedseg.evaluation.sets import EvaluationSet

RUNNING = "running"  # what BatchNorm normalizes by: its running statistics
BATCH = "batch"  # or those of the batch


@dataclass(frozen=True)
class Point:
    """A model.

    Attributes:
        name: for messages and pictures.
        w: its parameters, flat.
        buffers: its float buffers, flat.
    """

    name: str
    w: Tensor
    buffers: Tensor


@dataclass(frozen=True)
class Part:
    """Samples that one model sees.

    Attributes:
        plan: sample indices of every batch.
        personal: ``(w, buffers)`` with the personal parts of the client whose samples these are
            (SiloBN, FedBN, FedPer); None: the model as it is.
    """

    plan: list[list[int]]
    personal: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None


@dataclass
class Samples:
    """Data D: which samples, in which batches.

    Attributes:
        name: of the domain.
        parts: together all of D.
        load: plan -> (sample indices, batch) of every batch.
        test: computes the metrics, if there are any.
        weight: of all batches, once a pass has counted labeled pixels.
    """

    name: str
    parts: list[Part]
    load: Callable[[list[list[int]]], Iterator[tuple[list[int], Any]]]
    test: EvaluationSet | None = None
    weight: int | None = None

    def __len__(self) -> int:
        return sum(len(batch) for part in self.parts for batch in part.plan)


@dataclass(frozen=True)
class Batch:
    """A prepared batch.

    Attributes:
        data: as the model takes it.
        labels: of its samples, if it has any.
        indices: of its samples.
        weight: in the mean loss.
    """

    data: Any
    labels: Tensor | None
    indices: list[int]
    weight: int


class LossSurface:
    """The mean loss L_D of a model over data D, around a point w.

    The mean is over samples; for the pixelwise cross-entropy over labeled pixels, as in one batch.
    What ``flat`` holds is overwritten.

    Args:
        flat: the network.
        data: D.
        point: its parameters w, and its buffers.
        statistics: what BatchNorm normalizes by, ``"running"`` or ``"batch"`` statistics.
    """

    def __init__(
        self, flat: FlatModel, data: Samples, point: Point, statistics: str = RUNNING
    ) -> None:
        self.flat = flat
        self.data = data
        self.w = point.w
        self.buffers = point.buffers
        self.statistics = statistics
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
            w, buffers = self.w, self.buffers
            if part.personal is not None:
                w, buffers = part.personal(w, buffers)
            flat.w.copy_(w)
            flat.buffers.copy_(buffers)
            for indices, raw in self.data.load(part.plan):
                data = prepare_batch(flat.model, raw, flat.w.dtype, training=False)
                labels = data.get("data_samples") if isinstance(data, Mapping) else None
                weight = len(indices) if self._weigh is None else self._weigh(labels)
                yield Batch(data=data, labels=labels, indices=indices, weight=weight)

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
        with batch_statistics(layers) if self.statistics == BATCH else nullcontext():
            yield

    def loss(self) -> float:
        """L_D(w)."""
        mean = 0.0
        total = self.total  # counted first: counting passes through the data with this model
        with torch.no_grad(), self.evaluating():
            for batch in self:
                loss = total_loss(forward(self.flat.model, batch.data, "loss"))
                mean += float(loss) * batch.weight / total
        return mean

    def metrics(self) -> dict[str, float]:
        """The metrics of the data; none if they have no labels to compare with."""
        test = self.data.test
        if test is None:
            return {}
        with torch.no_grad(), self.evaluating():
            for batch in self:
                predictions = forward(self.flat.model, batch.data, "predict")
                test.process(batch.indices, batch.data, predictions)
        return test.score()

    def gradient(self) -> tuple[Tensor, float]:
        """The gradient of L_D at w, flat, summed in double precision; and L_D(w)."""
        gradient = torch.zeros_like(self.w, dtype=torch.float64)
        mean = 0.0
        total = self.total
        with torch.enable_grad(), self.evaluating():
            for batch in self:
                loss = total_loss(forward(self.flat.model, batch.data, "loss"))
                self.flat.backward(loss)
                share = batch.weight / total
                gradient.add_(self.flat.grad, alpha=share)
                mean += float(loss.detach()) * share
        return gradient, mean
