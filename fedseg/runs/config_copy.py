"""The composed config that a run leaves in its work dir, read without executing anything.

A run's folder often comes from somebody else, and a config file is a program. ``config.json`` holds
plain values; a tuple is a list there, a float that JSON lacks is ``{"__float__": "inf"}``, and a
dict with keys that are no text is ``{"__items__": [[key, value], ...]}``. The ``.py`` file beside
it is for people.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from fedseg.checks import shown
from fedseg.errors import DataError
from fedseg.files import read_json, sha256
from fedseg.runs.from_json import REWRITE, own_path

CONFIG_FILE = "config.json"
FLOAT, ITEMS = "__float__", "__items__"


def config_json(config: Mapping[str, Any]) -> str:
    """A config as the text of ``config.json``; what is no plain value is text, as in its digest."""
    return json.dumps(_to_json(config), indent=1, default=str, allow_nan=False) + "\n"


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {key: _to_json(inner) for key, inner in value.items()}
        is_object = all(isinstance(key, str) for key in found)
        return found if is_object else {ITEMS: [list(item) for item in found.items()]}
    if isinstance(value, list | tuple):
        return [_to_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT: str(value)}
    return value


def _from_json(value: dict[str, Any]) -> Any:
    if value.keys() == {ITEMS}:
        return _from_items(value[ITEMS])
    if value.keys() != {FLOAT}:
        return value
    if value[FLOAT] not in ("nan", "inf", "-inf"):
        raise ValueError(f"{FLOAT}: must be 'nan', 'inf' or '-inf', not {shown(value[FLOAT], 40)}")
    return float(value[FLOAT])


def _from_items(items: Any) -> dict[Any, Any]:
    pairs = [one for one in items if isinstance(one, list)] if isinstance(items, list) else []
    keys = [pair[0] for pair in pairs if len(pair) == 2]
    if not all(isinstance(key, str | int | float | None) for key in keys):
        keys = []
    if not keys or len(set(keys)) < len(items):
        raise ValueError(f"{ITEMS}: must be pairs of a key and its value, not {shown(items, 40)}")
    return dict(pairs)


def config_text(config: Mapping[str, Any]) -> str:
    """A config as assignments of plain values; MMEngine's own text takes some 80 times as long."""
    lines = [f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in config.items()]
    return "".join(lines)


def recorded_config(folder: Path, checksum: str | None = None) -> dict[str, Any]:
    """A run's recorded config; ``checksum`` is that of ``config.json`` if the run has noted it."""
    path = own_path(folder, CONFIG_FILE)
    if not path.exists():
        raise DataError(f"{path}: is missing; {REWRITE}")
    if checksum is not None and path.is_file() and sha256(path) != checksum:
        raise DataError(f"{path}: was changed after the run wrote it")
    config = read_json(path, REWRITE, strict=False, object_hook=_from_json)
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise DataError(f"{path}: is not the config of a run")
    return config
