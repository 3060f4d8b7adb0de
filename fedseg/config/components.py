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
LOADERS = ("train_dataloader", "val_dataloader.*", "test_dataloader.*")
_, VAL, TEST = LOADERS
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
    for place, loader in (one for pattern in loaders for one in find(config, pattern)):
        datasets = [*find(loader, "dataset"), *find(loader, "dataset.style.source")]
        for field, options in [] if loader.get("optional") else datasets:
            kind, source = options.get("type"), options.get("source")
            root = (source if isinstance(source, Mapping) else options).get("data_root")
            known = isinstance(kind, str) and kind in fedseg.registry.DATASETS.modules
            if known and isinstance(root, str) and not os.path.exists(root):
                command = PREPARED_BY.get(kind)
                fix = f"make it with {made_by(command, root)}" if command else "put it there"
                key = f"{place}.{field}." * field.endswith(".source")  # of a lender of styles
                raise DataError(f"{root}: does not exist: {fix}, or set {key}data_root")
