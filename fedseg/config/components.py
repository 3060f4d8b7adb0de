"""Places of a config that several parts of the suite read, and its data sets' folders.

Names of the suite's own classes are known without an import, by the tables of the registries.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import PositiveInt

import fedseg.registry
from fedseg.errors import DataError
from fedseg.names import PREPARED_BY, made_by

DEFAULT_HOOKS = {
    "checkpoint": {"type": "FederatedCheckpointHook"},
    "progress": {"type": "ProgressHook"},
    "trackers": {"type": "TrackersHook"},
    "pictures": {"type": "PicturesHook"},
}
# where data loaders stand, as patterns of :func:`find`
TRAIN = "train_dataloader"
VAL = "val_dataloader.*"
TEST = "test_dataloader.*"
LOADERS = (TRAIN, VAL, TEST)
MODEL_KEYS = ("freeze", "lora")  # of model, that are no arguments of its class
# keys of train_cfg that describe the local training; the others are the loop's
LOCAL_TRAINING: Mapping[str, Any] = {
    "amp": bool,
    "hook_interval": PositiveInt,
    "local_epochs": PositiveInt | None,
    "local_steps": PositiveInt | None,
}


def find(config: Any, pattern: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(field, component) of what a config has at a place; ``"*"``: each entry of a list or dict."""
    places = [("", config)]
    for part in pattern.split("."):
        inner = []
        for field, value in places:
            if part == "*" and isinstance(value, list | tuple):
                inner += [(f"{field}[{number}]", item) for number, item in enumerate(value)]
            elif part == "*" and isinstance(value, Mapping) and "type" not in value:
                inner += [(f"{field}.{name}", item) for name, item in value.items()]
            elif isinstance(value, Mapping) and part in value:
                inner.append((f"{field}.{part}".lstrip("."), value[part]))
        places = inner
    yield from ((field, value) for field, value in places if isinstance(value, Mapping))


def check_roots(config: Mapping[str, Any], *loaders: str) -> None:
    """Raise DataError for a data set of the suite whose folder is not there.

    Args:
        config: a complete one.
        loaders: where the data sets are, as in :data:`LOADERS`.
    """
    for pattern in loaders:
        for place, loader in find(config, pattern):
            if loader.get("optional"):
                continue
            for _, dataset in find(loader, "dataset"):
                _check_root(dataset, "data_root")
            for field, lender in find(loader, "dataset.style.source"):
                _check_root(lender, f"{place}.{field}.data_root")


def _check_root(dataset: Mapping[str, Any], key: str) -> None:
    """Raise DataError for a data set of the suite whose folder is not there.

    Args:
        dataset: its config.
        key: which sets the folder, for the message.
    """
    kind = dataset.get("type")
    if not isinstance(kind, str) or kind not in fedseg.registry.DATASETS.modules:
        return
    source = dataset.get("source")  # MMSegDataset: the data set of MMSegmentation that it wraps
    root = (source if isinstance(source, Mapping) else dataset).get("data_root")
    if not isinstance(root, str) or os.path.exists(root):
        return
    fix = "put it there"
    if kind in PREPARED_BY:
        fix = f"make it with {made_by(PREPARED_BY[kind], root)}"
    raise DataError(f"{root}: does not exist: {fix}, or set {key}")
