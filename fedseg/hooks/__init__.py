"""Hooks of a run: averaging, BatchNorm policies, checkpoints, progress, trackers, pictures."""

from fedseg.hooks.averaging import SWA, WIMA, ModelAverage
from fedseg.hooks.base import FederatedHook
from fedseg.hooks.batchnorm import BatchNormPolicy, FedBN, SiloBN
from fedseg.hooks.checkpoint import FederatedCheckpointHook
from fedseg.hooks.client_accuracy import ClientAccuracyHook
from fedseg.hooks.pictures import PicturesHook
from fedseg.hooks.progress import ProgressHook
from fedseg.hooks.trackers import TrackersHook

__all__ = [
    "SWA",
    "WIMA",
    "BatchNormPolicy",
    "ClientAccuracyHook",
    "FedBN",
    "FederatedCheckpointHook",
    "FederatedHook",
    "ModelAverage",
    "PicturesHook",
    "ProgressHook",
    "SiloBN",
    "TrackersHook",
]
