"""A metric of MMEngine or MMSegmentation among those of a test set."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.evaluator import BaseMetric
from mmengine.structures import BaseDataElement
from torch import Tensor

from fedseg.errors import ConfigError


class MMEngineMetric:
    """A ``BaseMetric`` with the methods of a ``CountingMetric``, whose counts are its ``results``.

    It cannot count by client or domain.
    """

    def __init__(self, metric: BaseMetric, num_samples: int) -> None:
        self.metric = metric
        self.num_samples = num_samples
        self._shared = False  # whether other processes have counted a part

    def process(
        self, indices: Sequence[int], batch: Mapping[str, Any], predictions: Any, group: Any = None
    ) -> None:
        self.metric.process(batch, as_samples(self.metric, batch, predictions))  # names differ

    def reset(self) -> None:
        self.metric.results = []
        self._shared = False

    def take(self) -> list[Any]:
        results = self.metric.results
        self.metric.results = []
        return results

    def add(self, results: list[Any]) -> None:
        self.metric.results += results
        self._shared = True

    def evaluate(self) -> dict[str, Any]:
        if self._shared and not self.metric.results:
            raise ConfigError(
                f"{type(self.metric).__name__}: does not keep its counts in results, so that "
                "workers cannot share an evaluation: use a CountingMetric"
            )
        self._shared = False
        return self.metric.evaluate(self.num_samples)


def as_samples(metric: BaseMetric, batch: Mapping[str, Any], predictions: Any) -> Any:
    """Predictions as MMEngine's Evaluator passes them on, a tensor as MMSegmentation's models."""
    if isinstance(predictions, list | tuple):
        return [p.to_dict() if isinstance(p, BaseDataElement) else p for p in predictions]
    of_mmseg = any(kind.__module__.startswith("mmseg.") for kind in type(metric).__mro__)
    if not of_mmseg or not isinstance(predictions, Tensor):
        return predictions
    pairs = zip(predictions, batch["data_samples"], strict=True)
    return [{"pred_sem_seg": {"data": p}, "gt_sem_seg": {"data": label}} for p, label in pairs]
