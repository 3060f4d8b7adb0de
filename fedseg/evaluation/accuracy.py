"""Top-1 accuracy of classification."""

import torch
from torch import Tensor

from fedseg.errors import DataError
from fedseg.evaluation.counting import CountingMetric, exact_counts
from fedseg.registry import METRICS


@METRICS.register_module()
class Accuracy(CountingMetric):
    """Part of the images whose predicted class is the true one, in PERCENT, as ``accuracy``.

    Predictions are class ids, integer [B], or logits, float [B, C]. Where the data set names its
    classes, :meth:`per_class` has the accuracy of each.
    """

    per_class_name = "accuracy_by_class"

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; empty if the data set gave none."""
        return tuple((self.dataset_meta or {}).get("classes") or ())

    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """int64 [2, max(C, 1)]: correct and all images of each class (or of all together)."""
        if predictions.is_floating_point():
            predictions = predictions.argmax(dim=1)
        if predictions.shape != labels.shape:
            raise DataError(
                f"Accuracy: predictions {list(predictions.shape)} and labels {list(labels.shape)} "
                "differ in shape"
            )
        correct = (predictions == labels).flatten()
        truth = labels.flatten() if self.classes else torch.zeros_like(labels).flatten()
        # one bincount for both rows, and nothing whose shape depends on how many are correct
        cells = exact_counts(truth * 2 + correct, 2 * max(len(self.classes), 1))
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
