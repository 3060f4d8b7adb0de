"""Intersection over union from one exact confusion matrix."""

import torch
from torch import Tensor

from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.counting import CountingMetric, exact_counts
from fedseg.registry import METRICS


@METRICS.register_module()
class IoUMetric(CountingMetric):
    """mIoU, mean class accuracy and pixel accuracy, in PERCENT (0..100), over one data set.

    Pixels are counted in one int64 confusion matrix, rows are the truth; ignored pixels count
    nowhere. A class without a pixel in the truth is left out of the means (IoU None); predicting it
    still lowers the IoU of the classes that those pixels belong to.

    Args:
        num_classes: C; by default the number of ``dataset_meta['classes']``.
        ignore_index: label of pixels that do not count.
        prefix: put before the names of the figures, with a slash.
    """

    def __init__(
        self,
        num_classes: int | None = None,
        ignore_index: int = 255,
        prefix: str | None = None,
    ) -> None:
        super().__init__(prefix)
        self._num_classes = num_classes
        self.ignore_index = ignore_index

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; numbers if the data set gave none."""
        names = (self.dataset_meta or {}).get("classes")
        if names is None and self._num_classes is None:
            raise ConfigError(
                "IoUMetric: the number of classes is unknown; set num_classes, or dataset_meta "
                "with 'classes'"
            )
        if names is None:
            return tuple(str(c) for c in range(self._num_classes))
        if self._num_classes not in (None, len(names)):
            raise ConfigError(
                f"IoUMetric.num_classes: is {self._num_classes}, but the data set has {len(names)} "
                "classes; leave num_classes out"
            )
        return tuple(names)

    @property
    def confusion(self) -> Tensor:
        """int64 [C, C], ``confusion[truth, prediction]``: pixels counted so far."""
        c = len(self.classes)
        return torch.zeros(c, c, dtype=torch.int64) if self.counts is None else self.counts

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        c = len(self.classes)
        if labels.shape != predictions.shape:
            raise DataError(
                f"IoUMetric: class maps {list(predictions.shape)} and labels {list(labels.shape)} "
                "differ in size"
            )
        labels, predictions = labels.long(), predictions.long()
        valid = labels != self.ignore_index
        _check_range("predictions", predictions, c)
        _check_range("labels", labels.masked_fill(~valid, 0), c)
        pairs = (labels * c + predictions).masked_fill_(~valid, c * c)
        return exact_counts(pairs, c * c + 1)[: c * c].reshape(c, c)

    def compute_metrics(self, results: list) -> dict[str, float]:
        confusion = self.confusion
        total = int(confusion.sum())
        if total == 0:
            raise DataError("IoUMetric: no labeled pixel was counted; is the test set empty?")
        truth = confusion.sum(1)
        present = truth > 0
        correct = confusion.diagonal().double()
        accuracy = correct[present] / truth[present]
        iou = self._iou()[present]
        return {
            "mIoU": 100 * float(iou.mean()),
            "mAcc": 100 * float(accuracy.mean()),
            "aAcc": 100 * int(confusion.diagonal().sum()) / total,
        }

    def per_class(self) -> dict[str, float | None]:
        """IoU of each class in percent; None for a class without a pixel in the truth."""
        present = self.confusion.sum(1) > 0
        return {
            name: 100 * float(iou) if is_present else None
            for name, iou, is_present in zip(self.classes, self._iou(), present, strict=True)
        }

    def _iou(self) -> Tensor:
        """float64 [C], 0..1; 0 for a class that neither truth nor prediction has."""
        confusion = self.confusion
        union = confusion.sum(1) + confusion.sum(0) - confusion.diagonal()
        return confusion.diagonal().double() / union.clamp(min=1)


def _check_range(what: str, ids: Tensor, num_classes: int) -> None:
    if ids.numel() == 0:
        return
    lowest, highest = (int(x) for x in ids.aminmax())
    if lowest < 0 or highest >= num_classes:
        raise DataError(
            f"IoUMetric: {what} hold class ids {lowest} to {highest}, expected 0 to "
            f"{num_classes - 1}; do model and data set have the same number of classes?"
        )
