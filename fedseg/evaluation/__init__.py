"""Metrics: exact counts in int64, values in percent."""

from fedseg.evaluation.metrics import Accuracy, BoundaryIoU, CountingMetric, DiceMetric, IoUMetric
