"""Accuracy and intersection over union, each from integer counts that one evaluation sums up."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedseg.config.arguments import PositiveShare
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.counting import CountingMetric
from fedseg.memory import finite
from fedseg.registry import METRICS

BYTE = 256  # values


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

    def compute_metrics(self) -> dict[str, float]:
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

    def compute_metrics(self) -> dict[str, float]:
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

    def compute_metrics(self) -> dict[str, float]:
        return {"mDice": super().compute_metrics()["mIoU"]}

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

    def compute_metrics(self) -> dict[str, float]:
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
