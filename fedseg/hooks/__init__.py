"""Hooks that are part of a method: averages of the global models."""

from fedseg.core.hook import FederatedHook
from fedseg.hooks.averaging import SWA, WIMA, ModelAverage
