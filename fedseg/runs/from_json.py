"""The JSON of a run as typed dataclasses, checked strictly."""

import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from fedseg.errors import DataError

REWRITE = "tools/train.py CONFIG --work-dir DIR --resume writes the file again"
NAMES = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


def from_plain(kind: Any, value: Any, path: str, field: str = "") -> Any:
    """Convert a JSON value to a type.

    Args:
        kind: a dataclass, ``int``, ``float``, ``str``, ``bool``, ``Any``, ``dict[str, X]``,
            ``tuple[X, ...]``, or a union of them. An integer is a float too; a bool is not a
            number.
        value: what JSON gave.
        path: the file, for messages.
        field: where in the file, for messages.

    Raises:
        DataError: the value is missing, of another type, or not finite.
    """
    if kind is Any:
        _require_finite(value, path, field)
        return value
    if get_origin(kind) in (Union, types.UnionType):
        for option in get_args(kind):
            if _fits(value, option):
                return None if value is None else from_plain(option, value, path, field)
    if not _fits(value, kind):
        found = "null" if value is None else repr(value)
        found = found if len(found) < 60 else f"{found[:57]}..."
        raise DataError(f"{path}: {field}: must be {_name(kind)}, not {found}")
    if is_dataclass(kind):
        return _instance(kind, value, path, field)
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return {k: from_plain(inner, v, path, _join(field, k)) for k, v in value.items()}
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return tuple(from_plain(inner, v, path, f"{field}[{i}]") for i, v in enumerate(value))
    _require_finite(value, path, field)
    return float(value) if kind is float else value


def _instance(kind: type, value: Mapping[str, Any], path: str, field: str) -> Any:
    hints = get_type_hints(kind)
    found = {}
    for one in fields(kind):
        where = _join(field, one.name)
        if one.name in value:
            found[one.name] = from_plain(hints[one.name], value[one.name], path, where)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise DataError(f"{path}: {where}: is missing; {REWRITE}")
    return kind(**found)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value can be of a type, without looking inside."""
    origin = get_origin(kind)
    if is_dataclass(kind) or origin is dict:
        return isinstance(value, dict)
    if origin is tuple:
        return isinstance(value, list)
    if origin in (Union, types.UnionType):
        return False
    if kind in (int, float):
        numbers = int if kind is int else int | float
        return isinstance(value, numbers) and not isinstance(value, bool)
    return kind is Any or isinstance(value, kind)


def _name(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_name(option) for option in get_args(kind))
    if kind is types.NoneType:
        return "null"
    if get_origin(kind) is tuple:
        return "a list"
    return NAMES.get(kind, "an object")


def _require_finite(value: Any, path: str, field: str) -> None:
    if isinstance(value, int | float) and not abs(value) <= sys.float_info.max:
        raise DataError(f"{path}: {field}: must be a finite number that a float can hold")
    if isinstance(value, dict):
        for key, inner in value.items():
            _require_finite(inner, path, _join(field, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _require_finite(inner, path, f"{field}[{index}]")


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name
