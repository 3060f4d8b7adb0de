"""Values as messages show them, and what counts as a number."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any


def is_number(value: Any) -> bool:
    """True if a value is a finite number; True and False are none."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # more than a float holds
        return False


def shown(value: Any, length: int = 200) -> str:
    """A value as a message shows it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than some thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def walk(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """(field, value) of a nested value and of everything in it, from outside to inside."""
    yield field, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, f"{field}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from walk(inner, f"{field}[{number}]")
