"""Hooks of a run: averaging, checkpoints, progress, pictures."""

from fedseg.core.hook import FederatedHook
from fedseg.hooks.averaging import SWA, WIMA, ModelAverage
from fedseg.hooks.progress import ProgressHook
