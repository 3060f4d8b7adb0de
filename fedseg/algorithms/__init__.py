"""Federated algorithms: one file each, a client rule and a server rule."""

from typing import Any

from fedseg.registry import ALGORITHMS, LOCAL_LOSSES, load_class

_MODULES = {
    **ALGORITHMS.modules,
    **LOCAL_LOSSES.modules,
    "Algorithm": "fedseg.core.algorithm",
    "LocalLoss": "fedseg.core.local_loss",
}


def __getattr__(name: str) -> Any:
    return load_class(__name__, name, _MODULES)
