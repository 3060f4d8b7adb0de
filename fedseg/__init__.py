"""fedseg: a benchmark suite for federated learning in computer vision."""

import os
from importlib import import_module
from typing import Any

# albumentations would look online for a newer version of itself when it is imported
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
# vectors of a whole model in pages of 2 MiB: to get new ones costs a fifth of the time
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__version__ = "0.1.0"
__all__ = (
    *("Evaluation", "Predictions", "Prepared", "Run"),
    *("browse", "evaluate", "export", "load_config", "new", "predict", "prepare", "profile"),
    *("read_run", "share", "train", "verify"),
)


def __getattr__(name: str) -> Any:
    """Names of :mod:`fedseg.api`, which is imported at first use, as that takes seconds."""
    if name in __all__:
        return getattr(import_module("fedseg.api"), name)
    raise AttributeError(f"module 'fedseg' has no attribute {name!r}")
