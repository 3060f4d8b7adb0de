"""What one model predicts of a test set, and its predictions."""

import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.core.forward import forward, prepare_batch
from fedseg.errors import ConfigError
from fedseg.evaluation.clients import fine_tune
from fedseg.evaluation.run import EvaluatedRun
from fedseg.evaluation.sets import EvaluationSet


@dataclass(frozen=True)
class EvalTask:
    """Samples of a test set that one model predicts; workers are dealt slices of its batches.

    Attributes:
        plan: sample indices of every batch.
        w: the model's parameters, flat.
        buffers: its float buffers, flat.
        batch_statistics: BatchNorm normalizes by the batch, not by the statistics in ``buffers``.
        counted: the samples whose predictions count; the others only fill up batches. None: all.
        client: whose test images these are; None: metrics count by the set's own groups.
        tuning: that client's local steps before it predicts, and their learning rate.
    """

    plan: list[list[int]]
    w: Tensor
    buffers: Tensor
    batch_statistics: bool = False
    counted: frozenset[int] | None = None
    client: str | None = None
    tuning: tuple[int, float | None] | None = None

    def only(self, wanted: Collection[int]) -> "EvalTask":
        """The task for some of the samples; their predictions stay the same."""
        wanted = frozenset(wanted)
        counted = wanted.intersection(itertools.chain(*self.plan))
        if self.counted is not None:
            counted &= self.counted
        plan = [batch for batch in self.plan if not counted.isdisjoint(batch)]
        if not self.batch_statistics:  # a sample does not depend on its batch
            plan = [[i for i in batch if i in counted] for batch in plan]
        return replace(self, plan=plan, counted=counted)


@dataclass(frozen=True)
class PredictedBatch:
    """A batch of a test set with its predictions.

    Attributes:
        indices: of its samples.
        data: the batch as the model took it.
        predictions: of the samples.
    """

    indices: list[int]
    data: Any
    predictions: Any

    def only(self, counted: Collection[int]) -> "PredictedBatch":
        """The part of it that counts."""
        rows = [row for row, index in enumerate(self.indices) if index in counted]
        size = len(self.indices)
        if len(rows) == size:
            return self
        return PredictedBatch(
            indices=[self.indices[row] for row in rows],
            data=select_rows(self.data, rows, size),
            predictions=select_rows(self.predictions, rows, size),
        )


def select_rows(values: Any, rows: list[int], size: int) -> Any:
    """Rows of the tensors, and items of the lists, of a batch of ``size`` samples."""
    if isinstance(values, Mapping):
        return {name: select_rows(value, rows, size) for name, value in values.items()}
    if isinstance(values, Tensor | np.ndarray):
        return values[rows] if values.ndim and len(values) == size else values
    if isinstance(values, list | tuple) and len(values) == size:
        return [values[row] for row in rows]
    return values


@torch.no_grad()
def predict(run: EvaluatedRun, test: EvaluationSet, task: EvalTask) -> Iterator[PredictedBatch]:
    """Predict the batches of a task; yields what counts of each."""
    statistics = nullcontext()
    if task.batch_statistics:
        statistics = batch_statistics(layers_by_batch(run).values())
    load_model(run, task.w, task.buffers)
    if task.tuning is not None:
        fine_tune(run, task.client, *task.tuning)
    with statistics:
        for indices, batch in test.batches(task.plan, pin_memory=run.flat.w.is_cuda):
            run.interrupt.check()
            data = prepare_batch(run.model, batch, run.flat.w.dtype, training=False)
            try:
                with run.autocast():
                    predictions = forward(run.model, data, "predict")
            except ValueError as error:
                if not task.batch_statistics or len(indices) > 1:
                    raise
                raise ConfigError(
                    f"{test.field}: a batch of one image has no statistics for the standard "
                    f"evaluation, where BatchNorm's stay with the clients ({error}): give it a "
                    "batch_size of at least 2, and at least 2 images"
                ) from error
            predicted = PredictedBatch(indices, data, predictions)
            yield predicted if task.counted is None else predicted.only(task.counted)


def load_model(run: EvaluatedRun, w: Tensor, buffers: Tensor) -> None:
    """Load what is evaluated; nothing needs restoring: whatever comes next loads its own."""
    run.flat.w.copy_(w)
    run.flat.buffers.copy_(buffers)
    run.model.eval()


def layers_by_batch(run: EvaluatedRun) -> dict[str, nn.Module]:
    """BatchNorm layers, by name, whose statistics stay with the clients: they use a batch's.

    Layers that a network leaves in eval mode while it trains never do.
    """
    if run.local_state is None:
        return {}
    run.model.train()
    layers = batchnorm_layers(run.model)
    names = [name for name in run.local_state.norm_layers if layers[name].training]
    run.model.eval()
    return {name: layers[name] for name in names}
