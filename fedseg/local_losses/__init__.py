"""Local losses: what a client minimizes on a batch; one class a file."""

from typing import Any

from fedseg.registry import LOCAL_LOSSES, load_class

_MODULES = {**LOCAL_LOSSES.modules, "LocalLoss": "fedseg.core.local_loss"}


def __getattr__(name: str) -> Any:
    return load_class(__name__, name, _MODULES)
