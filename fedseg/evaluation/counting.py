"""What the metrics share: integer counts that one evaluation sums up."""

from abc import abstractmethod

import torch
from mmengine.dist import all_reduce
from mmengine.evaluator import BaseMetric
from torch import Tensor


class CountingMetric(BaseMetric):
    """A metric that is a function of integer counts, so nothing of an image is kept.

    The counts stay readable after ``evaluate``; the next ``process`` then starts from zero, as does
    everything after ``reset``.
    """

    default_prefix = ""

    def __init__(self, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self.reset()

    def reset(self) -> None:
        """Forget everything counted."""
        self.counts: Tensor | None = None
        self._evaluated = False

    def process(self, data_batch: dict, data_samples: Tensor) -> None:
        """Count a batch.

        Args:
            data_batch: the preprocessed batch; ``data_batch['data_samples']`` are the labels.
            data_samples: the model's predictions for it.
        """
        if self._evaluated:
            self.reset()
        counts = self.count(data_batch["data_samples"], data_samples).cpu()
        self.counts = counts if self.counts is None else self.counts + counts

    def evaluate(self, size: int) -> dict[str, float]:
        """The figures as Python floats, with the prefix before their names.

        Args:
            size: number of images; unused, every processed image counts.

        Raises:
            DataError: nothing was counted.
        """
        if self.counts is not None and not self._evaluated:
            all_reduce(self.counts)  # of all processes; nothing to do for one
        self._evaluated = True
        figures = self.compute_metrics([self.counts])
        return {f"{self.prefix}/{k}" if self.prefix else k: v for k, v in figures.items()}

    @abstractmethod
    def count(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """int64 counts of one batch, of the same shape for every batch."""


def exact_counts(indices: Tensor, length: int) -> Tensor:
    """How often each of 0 .. length - 1 occurs, int64."""
    return torch.bincount(indices.flatten(), minlength=length)
