"""Metrics: exact counts in int64, values in percent."""

from fedseg.evaluation.counting import CountingMetric
from fedseg.evaluation.dice import ForegroundDice
from fedseg.evaluation.metrics import Accuracy, BoundaryIoU, DiceMetric, IoUMetric

__all__ = [
    "Accuracy",
    "BoundaryIoU",
    "CountingMetric",
    "DiceMetric",
    "ForegroundDice",
    "IoUMetric",
]
