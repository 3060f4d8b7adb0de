"""Dice of the foreground, by image or by case, as medical benchmarks report it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import Tensor

from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.metrics import PixelMetric
from fedseg.registry import METRICS


@METRICS.register_module()
class ForegroundDice(PixelMetric):
    """``fgDice``: the mean Dice coefficient of foreground classes over images or cases, in PERCENT.

    Dice is twice the overlap over both areas. Of each class it is the mean over the images (cases)
    that have a pixel of it in the ground truth or the prediction: it is 0 where only one of them
    has. ``fgDice`` is the mean over the classes, ``fgDice_by_class`` has each. Ignored pixels count
    nowhere. Pixels are counted by image (case), so that the values do not depend on the order of
    the batches, on their sizes, or on who counted them.

    Args:
        classes: name -> class ids that form it; they may be nested, as the optic disc is rim or
            cup: ``dict(disc=[1, 2], cup=[2])``.
        by: ``image``, or ``case``, for a data set with an attribute ``cases``, the case of every
            sample, such as the patient of a slice.
        kwargs: num_classes, ignore_index, prefix: see :class:`PixelMetric`.
    """

    per_class_name = "fgDice_by_class"

    def __init__(
        self,
        classes: Mapping[str, Sequence[NonNegativeInt]],
        by: Literal["image", "case"] = "image",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not classes or not all(classes.values()):
            raise ConfigError(
                "val_evaluator.classes: must name foreground classes and the class ids of each, "
                f"such as dict(lesion=[1]), not {dict(classes)!r}"
            )
        self.foreground = dict(classes)
        self.by = by

    def prepare(self, dataset: Any) -> None:
        """Number the images or cases of a data set.

        Raises:
            ConfigError: the data set lacks a class or the cases.
        """
        highest = max(max(ids) for ids in self.foreground.values())
        if highest >= len(self.classes):
            raise ConfigError(
                f"val_evaluator.classes: has the class id {highest}, the data set has "
                f"{len(self.classes)} classes"
            )
        if self.by == "image":
            self._units = np.arange(len(dataset))
            return
        cases = getattr(dataset, "cases", None)
        if cases is None or len(cases) != len(dataset):
            raise ConfigError(
                f"val_evaluator.by: is 'case', and {type(dataset).__name__} has no attribute cases "
                "with the case of every sample: set by='image'"
            )
        _, self._units = np.unique(np.asarray(cases), return_inverse=True)

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        raise NotImplementedError("samples are counted by count_samples")

    def count_samples(
        self, labels: Tensor, predictions: Tensor, indices: Sequence[int] | None
    ) -> Tensor:
        """Count int64 [images or cases, foreground classes, 3]: overlap, truth, prediction.

        Args:
            labels, predictions: class ids [B, H, W].
            indices: of these B samples in the data set.
        """
        labels, predictions = self._check(labels, predictions)
        valid = labels != self.ignore_index
        self._check_range("labels", labels.masked_fill(~valid, 0))
        areas = []
        for ids in self.foreground.values():
            members = torch.tensor(ids, device=labels.device)
            truth = torch.isin(labels, members) & valid
            predicted = torch.isin(predictions, members) & valid
            masks = torch.stack([truth & predicted, truth, predicted], dim=1)  # [B, 3, H, W]
            areas.append(masks.sum((2, 3)))
        counts = torch.zeros(int(self._units.max()) + 1, len(self.foreground), 3, dtype=torch.int64)
        units = torch.from_numpy(self._units[np.asarray(indices)])
        return counts.index_add_(0, units, torch.stack(areas, dim=1).cpu())

    def compute_metrics(self) -> dict[str, float]:
        values = [value for value in self.per_class().values() if value is not None]
        if not values:
            raise DataError(
                "ForegroundDice: no image has a pixel of the classes in val_evaluator.classes, in "
                "the labels or the predictions: are these the right class ids?"
            )
        return {"fgDice": math.fsum(values) / len(values)}

    def per_class(self) -> dict[str, float | None]:
        """Mean Dice of each foreground class in PERCENT; None for one that no image has."""
        if self.counts is None:
            return {}
        means: dict[str, float | None] = {}
        for name, counts in zip(self.foreground, self.counts.unbind(1), strict=True):
            overlap, truth, predicted = counts[counts.any(1)].unbind(1)
            dice = 200 * overlap.double() / (truth + predicted)
            means[name] = math.fsum(dice.tolist()) / len(dice) if len(dice) else None
        return means
