"""Federated algorithms: one file each, a client rule and a server rule."""

from typing import Any

from fedseg.registry import ALGORITHMS, load_class

_MODULES = {**ALGORITHMS.modules, "Algorithm": "fedseg.core.algorithm"}


def __getattr__(name: str) -> Any:
    return load_class(__name__, name, _MODULES)
