"""Metrics as functions of integer counts, of all images together and of groups of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.errors import ConfigError, DataError
from fedseg.metric_names import SPREAD

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class CountingMetric(ABC):
    """A metric that is a function of integer counts, so nothing of an image is kept.

    The counts stay readable after ``evaluate``; the next ``process`` then starts from zero, as does
    everything after ``reset``.

    Args:
        prefix: put before the names of the metrics, with a slash.

    Attributes:
        dataset_meta: ``metainfo`` of the data set, such as its ``classes``.
        counts: of the images so far; None: there was none.
        per_class_name: what the results call ``per_class()``.
    """

    per_class_name = "IoU"

    def __init__(self, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.dataset_meta: Mapping[str, Any] | None = None
        self.reset()

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; empty if the data set gave none."""
        classes = (self.dataset_meta or {}).get("classes")
        return () if classes is None else tuple(classes)

    def reset(self) -> None:
        """Start from zero."""
        self.counts: Tensor | None = None
        self._evaluated = False

    def prepare(self, dataset: Any) -> None:
        """Get ready for the samples of a data set, whose classes are known by now."""

    def process(
        self,
        indices: Sequence[int],
        batch: Mapping[str, Any],
        predictions: Tensor,
        group: Any = None,
    ) -> None:
        """Count a batch.

        Args:
            indices: of its samples in the data set.
            batch: with the labels as ``data_samples``.
            predictions: of the model for it.
            group: client for whom it was predicted; None: for nobody in particular.
        """
        self.add(self.counted(batch["data_samples"], predictions, indices))

    def counted(
        self, labels: Tensor, predictions: Tensor, indices: Sequence[int] | None = None
    ) -> Tensor:
        """The counts of a batch on the CPU, checked."""
        counts = self.count_samples(labels, predictions, indices)
        if not isinstance(counts, Tensor) or counts.dtype not in WHOLE:
            kind = f"{type(counts).__name__} {getattr(counts, 'dtype', '')}"
            raise ConfigError(f"{type(self).__name__}.count: must be an int64 tensor, not {kind}")
        return counts.long().cpu()

    def add(self, counts: Tensor) -> None:
        """Add counts of more images."""
        if self._evaluated:
            self.reset()
        if self.counts is not None:
            self._check_shape(self.counts, counts)
        self.counts = counts if self.counts is None else self.counts + counts

    def evaluate(self) -> dict[str, float]:
        """The metrics as Python floats, with the prefix before their names."""
        self._evaluated = True
        metrics = self.compute_metrics()
        if self.prefix:
            return {f"{self.prefix}/{name}": value for name, value in metrics.items()}
        return metrics

    def take(self) -> Any:
        """The counts so far; they start anew."""
        counts = self.counts
        self.reset()
        return counts

    @abstractmethod
    def compute_metrics(self) -> dict[str, float]:
        """The metrics of the counts, by name."""

    @abstractmethod
    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """int64 counts of one batch, of the same shape for every batch."""

    def count_samples(
        self, labels: Tensor, predictions: Tensor, indices: Sequence[int] | None
    ) -> Tensor:
        """The same where it matters which samples of the data set they are."""
        return self.count(labels, predictions)

    def details(self) -> dict[str, Any]:
        """Values by class for the results: ``per_class()``, if the metric has it."""
        return {self.per_class_name: self.per_class()} if hasattr(self, "per_class") else {}

    def _check_shape(self, known: Tensor, counts: Tensor) -> None:
        """Raise ConfigError unless the counts of a batch have the shape of those before."""
        if counts.shape != known.shape:
            shapes = f"gives {[*known.shape]}, then {[*counts.shape]}"
            name = type(self).__name__
            raise ConfigError(f"{name}.count: {shapes}: return one shape for every batch")

    def _check(self, labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
        """Both as int64 of one shape."""
        name = type(self).__name__
        if predictions.shape != labels.shape:
            raise DataError(
                f"{name}: predictions {list(predictions.shape)} and labels {list(labels.shape)} "
                "differ in shape"
            )
        if labels.is_floating_point():
            raise DataError(f"{name}: labels must be class ids, integers, not {labels.dtype}")
        return labels.long(), predictions.long()

    def _check_range(self, what: str, ids: Tensor) -> None:
        lowest, highest = map(int, ids.aminmax()) if ids.numel() else (0, 0)
        if lowest < 0 or highest >= len(self.classes):
            raise DataError(
                f"{type(self).__name__}: {what} hold class ids {lowest} to {highest}, expected 0 "
                f"to {len(self.classes) - 1}; do model and data set have the same number of "
                "classes?"
            )


class Grouped(CountingMetric):
    """A metric of all images together and of groups of them, from one table of counts by group.

    Its values: those of all images (``mIoU``); mean, standard deviation, mean of the worst tenth
    and worst one of the groups (``mIoU_mean``, ``_std``, ``_worst10``, ``_worst``).

    Args:
        metric: of the images of one group.
        groups: name -> indices of its samples.
        size: samples of the data set.

    Attributes:
        table: of the last evaluation, group -> its values, images and values by class.
    """

    def __init__(self, metric: CountingMetric, groups: Mapping[Any, np.ndarray], size: int) -> None:
        super().__init__(prefix=metric.prefix)
        self.metric = metric
        self.groups = groups
        self.table: dict[Any, dict[str, Any]] = {}
        self.position = np.full(size, -1)
        for number, indices in enumerate(groups.values()):
            self.position[indices] = number

    def process(
        self,
        indices: Sequence[int],
        batch: Mapping[str, Any],
        predictions: Tensor,
        group: Any = None,
    ) -> None:
        """Count a batch of samples: all for a group, by default each for the one that has it."""
        labels = batch["data_samples"]
        owners = self.position[np.asarray(indices)]
        if group is not None:
            owners[:] = list(self.groups).index(group)
        for owner in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == owner)
            chosen = np.asarray(indices)[rows]
            if len(rows) == len(owners):
                counts = self.metric.counted(labels, predictions, chosen)
            else:
                rows = torch.from_numpy(rows).to(labels.device)
                counts = self.metric.counted(labels[rows], predictions[rows], chosen)
            self.add_to(owner, counts)

    def add_to(self, group: int, counts: Tensor) -> None:
        """Add counts of more images of a group, given by its number, in place."""
        if self._evaluated:
            self.reset()
        if self.counts is None:
            self.counts = counts.new_zeros(len(self.groups), *counts.shape)
        self.metric._check_shape(self.counts[group], counts)
        self.counts[group] += counts

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        raise NotImplementedError("batches are counted by process")

    def _of(self, counts: Tensor) -> CountingMetric:
        self.metric.counts = counts
        return self.metric

    def details(self) -> dict[str, Any]:
        return {} if self.counts is None else self._of(self.counts.sum(0)).details()

    def by_group(self) -> dict[Any, dict[str, Any]]:
        """Group -> its values and values by class; without values if nothing of it is labeled."""
        table = {}
        for (group, images), counts in zip(self.groups.items(), self.counts, strict=True):
            metric = self._of(counts)
            values = metric.compute_metrics() if counts.any() else {}
            table[group] = {"images": len(images), **values, **metric.details()}
        return table

    def compute_metrics(self) -> dict[str, float]:
        if self.counts is None:
            raise DataError(
                "no held-out image was counted: raise train_dataloader.partition.holdout"
            )
        self.table = self.by_group()
        total = self.counts.sum(0)
        metrics = dict(self._of(total).compute_metrics())
        for name in list(metrics):
            values = np.sort([one[name] for one in self.table.values() if name in one])
            worst = values[: -(-len(values) // 10)]
            over = values.mean(), values.std(), worst.mean(), values[0]
            metrics |= {name + end: float(v) for end, v in zip(SPREAD, over, strict=True)}
        return metrics


class ByCorruption(Grouped):
    """``accuracy`` is the mean over the (corruption, severity) groups, in PERCENT.

    ``accuracy_severity_<n>`` is that over the corruptions. A group that was never tested has no
    accuracy, and neither has a mean over it: one over fewer groups would not compare.
    """

    def accuracies(self) -> dict[tuple[str, int], float | None]:
        """The accuracy of each (corruption, severity)."""
        return {group: values.get("accuracy") for group, values in self.by_group().items()}

    def compute_metrics(self) -> dict[str, float | None]:
        columns: dict[str, list[float | None]] = {"accuracy": []}
        for (_, severity), accuracy in self.accuracies().items():
            columns["accuracy"].append(accuracy)
            columns.setdefault(f"accuracy_severity_{severity}", []).append(accuracy)
        return {
            name: None if None in values else float(np.mean(values))
            for name, values in columns.items()
        }

    def details(self) -> dict[str, Any]:
        """``corruptions``: the accuracy of each at each of the ``severities``."""
        table: dict[str, list[float | None]] = {}
        for (corruption, _), accuracy in self.accuracies().items():
            table.setdefault(corruption, []).append(accuracy)
        return {"corruptions": table, "severities": list(dict.fromkeys(s for _, s in self.groups))}
