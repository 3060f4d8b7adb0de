"""The JSON of a run as typed dataclasses, checked strictly: it may come from anyone."""

import hashlib
import json
import os
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from fedseg import cli
from fedseg.errors import DataError

REWRITE = "fedseg train CONFIG --work-dir DIR --resume writes the file again"
NAMES = {
    **{int: "an integer", float: "a number", str: "text", bool: "true or false"},
    **{NoneType: "null", tuple: "a list"},
}
LARGEST_NUMBER = 1e300  # so that sums are finite, too


def own_path(folder: Path, name: str) -> Path:
    """The path of a file in a run's folder.

    Raises:
        DataError: it is a link that leads out of the folder.
    """
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise DataError(f"{path}: leads out of the run's folder: copy the file there")
    return path


def own_folder(folder: Path, name: str) -> Path:
    """The path of a folder in a run's folder, in which files are to be written.

    Raises:
        DataError: it, or anything in it, is a link that leads out of the run's folder.
    """
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
        return [printable(inner) for inner in value]
    return cli.printable(value) if isinstance(value, str) else value


def from_plain(kind: Any, value: Any, path: str, field: str = "") -> Any:
    """Convert a JSON value to a type; ``path`` and ``field`` are for messages.

    The type is a dataclass, ``int``, ``float``, ``str``, ``bool``, ``Any``, ``dict[str, X]``,
    ``tuple[X, ...]``, or a union ``X | Y`` of them. An integer is a float too; a bool is no number.

    Raises:
        DataError: the value is missing, of another type, or not finite.
    """
    options = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    chosen = next((option for option in options if _fits(value, option)), None)
    if chosen is None:
        found = "null" if value is None else repr(value)
        found = found if len(found) < 60 else f"{found[:57]}..."
        names = [NAMES.get(get_origin(one) or one, "an object") for one in options]
        raise DataError(f"{path}: {field}: must be {' or '.join(names)}, not {found}")
    prefix = f"{field}." if field else ""
    if is_dataclass(chosen):
        for one in fields(chosen):
            if one.name not in value and one.default is one.default_factory is MISSING:
                raise DataError(f"{path}: {prefix}{one.name}: is missing; {REWRITE}")
        hints = get_type_hints(chosen)
        given = {k: v for k, v in value.items() if k in hints}
        return chosen(**{k: from_plain(hints[k], v, path, prefix + k) for k, v in given.items()})
    inner = next((one for one in reversed(get_args(chosen)) if one is not ...), Any)
    if isinstance(value, dict):
        return {k: from_plain(inner, v, path, prefix + k) for k, v in value.items()}
    if isinstance(value, list):
        found = [from_plain(inner, v, path, f"{field}[{i}]") for i, v in enumerate(value)]
        return tuple(found) if get_origin(chosen) is tuple else found
    if isinstance(value, int | float) and not abs(value) <= LARGEST_NUMBER:
        raise DataError(f"{path}: {field}: must be a finite number below {LARGEST_NUMBER:g}")
    return float(value) if chosen is float else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value can be of a type, without looking inside."""
    if kind is Any or isinstance(value, bool):
        return kind in (Any, bool)
    plain = dict if is_dataclass(kind) else get_origin(kind) or kind
    return isinstance(value, {tuple: list, float: int | float}.get(plain, plain))
