"""Metrics: exact counts in int64, figures in percent."""

from fedseg.evaluation.accuracy import Accuracy
from fedseg.evaluation.iou import IoUMetric

__all__ = ["Accuracy", "IoUMetric"]
