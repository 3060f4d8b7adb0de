"""Hooks of a run: averaging, BatchNorm policies, checkpoints, progress, trackers, pictures."""

from fedseg.core.hook import FederatedHook
from fedseg.hooks.averaging import SWA, WIMA, ModelAverage
from fedseg.hooks.local_state import FedBN, LocalState, SiloBN
from fedseg.hooks.progress import ProgressHook
from fedseg.hooks.trackers import TrackersHook
