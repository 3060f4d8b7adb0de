"""The files of a run that may come from anyone: no path leaves its folder, text is printable."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from fedseg import cli
from fedseg.errors import DataError

REWRITE = "fedseg train CONFIG --work-dir DIR --resume writes the file again"
LARGEST_NUMBER = 1e300  # so that sums are finite, too


def own_path(folder: Path, name: str) -> Path:
    """The path of a file in a folder from anybody; DataError for a link that leads out of it."""
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise DataError(f"{path}: is a link that leads out of {folder}: remove it")
    return path


def own_folder(folder: Path, name: str) -> Path:
    """The same of a folder to write in, with no such link anywhere in it."""
    path = own_path(folder, name)
    for inner in path.rglob("*"):
        own_path(folder, str(inner.relative_to(folder)))
    return path


def digest(content: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys; what is none counts as its text."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def printable(value: Any) -> Any:
    """A JSON value, its text and keys as a terminal and a table's row may show them."""
    if isinstance(value, dict):
        return {cli.printable(key): printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        numbers = set(map(type, value)) <= {float, int, type(None)}
        return value if numbers else [printable(inner) for inner in value]
    return cli.printable(value) if isinstance(value, str) else value
