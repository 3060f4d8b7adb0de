"""Accuracy and intersection over union, each from integer counts that one evaluation sums up."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor
from torch.nn import functional

from fedseg.config.arguments import PositiveShare
from fedseg.errors import ConfigError, DataError
from fedseg.memory import finite
from fedseg.metric_names import SPREAD
from fedseg.registry import METRICS


def labels_of(batch: Mapping | Sequence) -> Tensor:
    """The labels of a preprocessed batch: ``data_samples``, or the second of a sequence."""
    return batch["data_samples"] if isinstance(batch, Mapping) else batch[1]


BYTE = 256  # values
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _fit_bytes(ids: Tensor) -> bool:
    """True for ids on the CPU that are all in 0..255."""
    if ids.device.type != "cpu" or not ids.numel():
        return False
    lowest, highest = map(int, ids.aminmax())
    return lowest >= 0 and highest < BYTE


def _count_bytes(rows: Tensor, columns: Tensor) -> Tensor:
    """int64 [256, 256], how often each pair occurs; both on the CPU, in 0..255."""
    row, column = (ids.to(torch.uint8).flatten().numpy() for ids in (rows, columns))
    pairs = np.left_shift(row, 8, dtype=np.uint16) | column
    return torch.from_numpy(np.bincount(pairs, minlength=BYTE * BYTE)).view(BYTE, BYTE)


class CountingMetric(BaseMetric):
    """A metric that is a function of integer counts, so nothing of an image is kept.

    The counts stay readable after ``evaluate``; the next ``process`` then starts from zero, as does
    everything after ``reset``.
    """

    default_prefix = ""
    per_class_name = "IoU"

    def __init__(self, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
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

    def process(self, data_batch: dict, data_samples: Tensor) -> None:
        """Count a batch; ``data_samples`` are the model's predictions for it."""
        self.add(self.counted(labels_of(data_batch), data_samples))

    def process_samples(
        self, indices: Sequence[int], data: Any, predictions: Tensor, group: Any = None
    ) -> None:
        """Count a batch of the samples with these indices, which is predicted for a group."""
        self.process(data, predictions)

    def counted(
        self, labels: Tensor, predictions: Tensor, indices: Sequence[int] | None = None
    ) -> Tensor:
        """The counts of a batch on the CPU, checked."""
        counts = self.count_samples(labels, predictions, indices)
        if not isinstance(counts, Tensor) or counts.dtype not in WHOLE:
            told = f"{type(counts).__name__} {getattr(counts, 'dtype', '')}"
            raise ConfigError(f"{type(self).__name__}.count: must be an int64 tensor, not {told}")
        return counts.long().cpu()

    def add(self, counts: Tensor) -> None:
        """Add counts of more images."""
        if self._evaluated:
            self.reset()
        if self.counts is not None:
            self._check_shape(self.counts, counts)
        self.counts = counts if self.counts is None else self.counts + counts

    def evaluate(self, size: int) -> dict[str, float]:
        """The metrics as Python floats, with the prefix before their names (``size`` is unused)."""
        self._evaluated = True
        metrics = self.compute_metrics([self.counts])
        return {f"{self.prefix}/{k}" if self.prefix else k: v for k, v in metrics.items()}

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


@METRICS.register_module()
class Accuracy(CountingMetric):
    """Part of the images whose predicted class is the true one, in PERCENT, as ``accuracy``.

    Predictions are class ids, integer [B], or logits, float [B, C]. Where the data set names its
    classes, :meth:`per_class` has the accuracy of each.
    """

    per_class_name = "accuracy_by_class"

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """int64 [2, max(C, 1)]: correct and all images of each class (or of all together)."""
        if predictions.is_floating_point():
            predictions = finite(predictions).argmax(dim=1)
        labels, predictions = self._check(labels, predictions)
        correct = (predictions == labels).flatten()
        if self.classes:
            self._check_range("labels", labels)
        truth = labels.flatten() if self.classes else torch.zeros_like(labels).flatten()
        # one bincount for both rows, and nothing whose shape depends on how many are correct
        cells = torch.bincount(truth * 2 + correct, minlength=2 * max(len(self.classes), 1))
        wrong, right = cells.view(-1, 2).T
        return torch.stack([right, right + wrong])

    def compute_metrics(self, results: list) -> dict[str, float]:
        if self.counts is None or self.counts[1].sum() == 0:
            raise DataError("Accuracy: no image was counted; is the test set empty?")
        correct, total = self.counts.sum(dim=1).tolist()
        return {"accuracy": 100 * correct / total}

    def per_class(self) -> dict[str, float | None]:
        """Accuracy of each class in PERCENT; None for a class without an image."""
        if self.counts is None:
            return {}
        correct, total = self.counts.tolist()
        shares = [100 * c / t if t else None for c, t in zip(correct, total, strict=True)]
        return dict(zip(self.classes, shares, strict=False))


class Grouped(CountingMetric):
    """A metric of all images together and of groups of them, from one table of counts by group.

    Its values: those of all images (``mIoU``); mean, standard deviation, mean of the worst tenth
    and worst one of the groups (``mIoU_mean``, ``_std``, ``_worst10``, ``_worst``).
    """

    def __init__(self, metric: CountingMetric, groups: Mapping[Any, np.ndarray], size: int) -> None:
        super().__init__(prefix=metric.prefix)
        self.metric, self.groups = metric, groups
        self.position = np.full(size, -1)
        for number, indices in enumerate(groups.values()):
            self.position[indices] = number

    def process_samples(
        self, indices: Sequence[int], data: Any, predictions: Tensor, group: Any = None
    ) -> None:
        """Count a batch of samples: all for a group, by default each for the one that has it."""
        labels, owners = labels_of(data), self.position[np.asarray(indices)]
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
        raise NotImplementedError("samples are counted by process_samples")

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
            values = metric.compute_metrics([counts]) if counts.any() else {}
            table[group] = {"images": len(images), **values, **metric.details()}
        return table

    def costs(self) -> dict[Any, dict[str, Any]]:
        """Group -> points that each class would gain over all images without those of the group."""
        if not hasattr(self.metric, "per_class"):
            return {}
        everything, costs = self.counts.sum(0), {}
        values = self._of(everything).per_class().items()
        for group, counts in zip(self.groups, self.counts, strict=True):
            rest = self._of(everything - counts).per_class()
            gain = {name: None if None in (v, rest[name]) else rest[name] - v for name, v in values}
            costs[group] = {f"{self.metric.per_class_name}_cost": gain}
        return costs

    def compute_metrics(self, results: list) -> dict[str, float]:
        if self.counts is None:
            raise DataError(
                "no held-out image was counted: raise train_dataloader.partition.holdout"
            )
        self.table = self.by_group()
        total = self.counts.sum(0)
        metrics = dict(self._of(total).compute_metrics([total]))
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

    def compute_metrics(self, results: list) -> dict[str, float | None]:
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


class PixelMetric(CountingMetric):
    """Base of the metrics of label maps.

    Args:
        num_classes: C, for a data set that names no classes.
        ignore_index: label of pixels that do not count.
        prefix: put before the names of the metrics, with a slash.
    """

    def __init__(
        self, num_classes: int = 0, ignore_index: int = 255, prefix: str | None = None
    ) -> None:
        super().__init__(prefix)
        self.num_classes, self.ignore_index = num_classes, ignore_index

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; numbers if the data set gave none."""
        return super().classes or tuple(str(c) for c in range(self.num_classes))

    def _check(self, labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
        if not self.classes:
            kind = type(self).__name__
            raise ConfigError(f"{kind}.num_classes: set it, the data set names no classes")
        labels, predictions = super()._check(labels, predictions)
        self._check_range("predictions", predictions)
        return labels, predictions


@METRICS.register_module()
class IoUMetric(PixelMetric):
    """mIoU, mean class accuracy and pixel accuracy, in PERCENT (0..100), over one data set.

    Pixels are counted in one int64 confusion matrix, rows are the ground truth; ignored pixels
    count nowhere. A class without a pixel in the ground truth is left out of the means (IoU None);
    predicting it still lowers the IoU of the classes that those pixels belong to.
    """

    @property
    def confusion(self) -> Tensor:
        """int64 [C, C], ``confusion[truth, prediction]``: pixels counted so far."""
        c = len(self.classes)
        return torch.zeros(c, c, dtype=torch.int64) if self.counts is None else self.counts

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        c = len(self.classes)
        labels, predictions = self._check(labels, predictions)
        if c <= BYTE and _fit_bytes(labels):  # 15 times as fast on a CPU
            table = _count_bytes(labels, predictions)
            present = table.sum(1).nonzero()
            self._check_range("labels", present[present != self.ignore_index])
            if 0 <= self.ignore_index < BYTE:
                table[self.ignore_index] = 0
            return table[:c, :c].clone()
        valid = labels != self.ignore_index
        self._check_range("labels", labels.masked_fill(~valid, 0))
        pairs = (labels * c + predictions).masked_fill_(~valid, c * c)
        return torch.bincount(pairs.flatten(), minlength=c * c + 1)[: c * c].reshape(c, c)

    def compute_metrics(self, results: list) -> dict[str, float]:
        confusion = self.confusion
        total = int(confusion.sum())
        if total == 0:
            raise DataError("IoUMetric: every pixel is ignored: has it the right labels?")
        truth = confusion.sum(1)
        present = truth > 0
        correct = confusion.diagonal().double()
        accuracy = correct[present] / truth[present]
        return {
            "mIoU": 100 * float(self._iou()[present].mean()),
            "mAcc": 100 * float(accuracy.mean()),
            "aAcc": 100 * int(confusion.diagonal().sum()) / total,
        }

    def per_class(self) -> dict[str, float | None]:
        """IoU of each class in PERCENT; None for a class without a pixel in the ground truth."""
        present = self.confusion.sum(1) > 0
        return {
            name: 100 * float(iou) if is_present else None
            for name, iou, is_present in zip(self.classes, self._iou(), present, strict=True)
        }

    def _iou(self) -> Tensor:
        """float64 [C], 0..1; 0 for a class that neither ground truth nor prediction has."""
        confusion = self.confusion
        union = confusion.sum(1) + confusion.sum(0) - confusion.diagonal()
        return confusion.diagonal().double() / union.clamp(min=1)


@METRICS.register_module()
class DiceMetric(IoUMetric):
    """``mDice``: the mean over classes of twice the overlap over both areas, in PERCENT.

    Arguments, counts and classes that are left out are those of :class:`IoUMetric`.
    """

    per_class_name = "Dice"

    def compute_metrics(self, results: list) -> dict[str, float]:
        return {"mDice": super().compute_metrics(results)["mIoU"]}

    def _iou(self) -> Tensor:
        areas = self.confusion.sum(1) + self.confusion.sum(0)
        return 2 * self.confusion.diagonal().double() / areas.clamp(min=1)


@METRICS.register_module()
class BoundaryIoU(PixelMetric):
    """``mBIoU``: as mIoU, of the pixels near the boundary of their class, in PERCENT.

    Cheng et al., "Boundary IoU", CVPR 2021: of each class's area, in the labels and in the
    prediction, those pixels count that are at most ``width`` from outside of it; an image's edge is
    outside. Ignored pixels count nowhere.

    Args:
        width: share of the image's diagonal.
        kwargs: num_classes, ignore_index, prefix: see :class:`PixelMetric`.
    """

    per_class_name = "BIoU"

    def __init__(self, width: PositiveShare = 0.02, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """int64 [3, C]: overlap, union, and labels' pixels near the boundaries of each class."""
        labels, predictions = self._check(labels, predictions)
        valid = labels != self.ignore_index
        self._check_range("labels", labels.masked_fill(~valid, 0))
        predictions = predictions.masked_fill(~valid, self.ignore_index)  # the same is outside
        counts = torch.zeros(3, len(self.classes), dtype=torch.int64, device=labels.device)
        for number in torch.unique(torch.cat([labels[valid], predictions[valid]])).tolist():
            truth, predicted = (self._near(ids == number) & valid for ids in (labels, predictions))
            areas = [(truth & predicted).sum(), (truth | predicted).sum(), truth.sum()]
            counts[:, number] = torch.stack(areas)
        return counts

    def _near(self, areas: Tensor) -> Tensor:
        """The pixels of areas, bool [B, H, W], that are near their boundaries."""
        height, width = areas.shape[1:]
        reach = max(1, round(self.width * math.hypot(height, width)))
        outside = (~areas).float()
        for kernel in ((1, 2 * reach + 1), (2 * reach + 1, 1)):
            padding = (reach, reach, 0, 0) if kernel[0] == 1 else (0, 0, reach, reach)
            outside = functional.max_pool2d(functional.pad(outside, padding, value=1.0), kernel, 1)
        return areas & outside.bool()

    def compute_metrics(self, results: list) -> dict[str, float]:
        values = [value for value in self.per_class().values() if value is not None]
        if not values:
            raise DataError("BoundaryIoU: every pixel is ignored: has it the right labels?")
        return {"mBIoU": float(np.mean(values))}

    def per_class(self) -> dict[str, float | None]:
        """Boundary IoU of each class in PERCENT; None for a class without labeled pixels there."""
        if self.counts is None:
            return {}
        shares = zip(self.classes, *self.counts.tolist(), strict=True)
        return {name: 100 * both / union if count else None for name, both, union, count in shares}
