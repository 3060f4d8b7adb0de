"""Metrics: exact counts in int64, values in percent."""

from fedseg.evaluation.metrics import Accuracy, CountingMetric, IoUMetric

__all__ = ["Accuracy", "CountingMetric", "IoUMetric"]
