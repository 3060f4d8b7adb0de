"""Options of components: a wrong one is a ConfigError that names the field and what it may be."""

import builtins
import inspect
import math
import os
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, Union, get_args, get_origin

from fedseg.errors import ConfigError

SMALLEST, LARGEST = 1e-37, 1e37  # a float32's, and of its inverse


def check_float(
    field: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    single: bool = True,
) -> None:
    """Raise ConfigError unless an option is a finite number within its bounds.

    What a float32 cannot hold is refused too: PyTorch breaks off when it meets such a number.

    Args:
        field: its name in the config, for example ``"algorithm.mu"``.
        least, most: bounds that it may reach. above, below: bounds that it may not reach.
        single: whether vectors of a model in single precision are computed with it.
    """
    bounds = [(">=", least), (">", above), ("<=", most), ("<", below)]
    wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if math.isfinite(bound))
    if not is_number(value) or not (least <= value <= most and above < value < below):
        number = f"a finite number {wanted}".rstrip()
        raise ConfigError(f"{field}: must be {number}, not {shown(value)}")
    if single and value and not SMALLEST <= abs(value) <= LARGEST:
        raise ConfigError(
            f"{field}: {value!r} does not fit single precision, which has {SMALLEST:g} to "
            f"{LARGEST:g}: use a number in between"
        )


def check_int(field: str, value: Any, least: int = 1, also: str | None = None) -> None:
    """Raise ConfigError unless an option is a whole number of at least ``least``, or ``also``."""
    if also is not None and value == also:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        kind = "positive integer" if least == 1 else f"whole number >= {least}"
        other = f" or {also!r}" if also is not None else ""
        raise ConfigError(f"{field}: must be a {kind}{other}, not {shown(value)}")


def check_type(field: str, value: Any, hint: Any) -> None:
    """Raise ConfigError unless an option is of a type, written as in a signature.

    A list stands for any sequence and a dict for any mapping, a text for a path. Numbers are finite
    and True is none. What a config cannot write is trusted: an object that is built already.

    Args:
        field: its name in the config; of a list or dict, the message names the item.
        hint: a type, a union or ``Literal``, with types of items; what it does not know fits.
    """
    if _fits(value, hint):
        return
    inner = get_args(hint)
    if get_origin(hint) in UNIONS:  # of a list or dict, the item that is wrong
        for own in inner:
            if get_origin(own) and _fits(value, get_origin(own)):
                check_type(field, value, own)
    elif isinstance(value, list | tuple) and _fits(value, get_origin(hint)):
        for number, (item, own) in enumerate(zip(value, _items(inner, len(value)), strict=False)):
            check_type(f"{field}[{number}]", item, own)
    elif isinstance(value, Mapping) and _fits(value, get_origin(hint)):
        for name, item in value.items():
            check_type(f"{field}.{name}", item, inner[1])
    raise ConfigError(f"{field}: must be {_described(hint)}, not {shown(value)}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; True and False are none."""
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


UNIONS = (Union, types.UnionType)
PLAIN = (str, bool, int, float, list, tuple, Mapping, types.NoneType)  # what a config can write
NAMES = {
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    types.NoneType: "None",
}


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, str):  # a signature whose types are not evaluated
        hint = vars(builtins).get(hint, Any)
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in UNIONS:
        return any(_fits(value, own) for own in inner)
    if kind is Literal:
        return any(type(value) is type(own) and value == own for own in inner)
    if kind in (None, types.NoneType):
        return value is None
    if kind is float:
        return is_number(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if kind in (Any, object) or not inspect.isclass(kind) or not isinstance(value, PLAIN):
        return kind not in (bool, str)
    if issubclass(kind, os.PathLike):
        return isinstance(value, str | os.PathLike)
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(v, h) for v in value.values() for h in inner[1:]
        )
    if kind in (Sequence, Collection, Iterable, list, tuple, set):
        items = _items(inner, len(value)) if isinstance(value, list | tuple) else None
        return items is not None and len(items) == len(value) and all(map(_fits, value, items))
    return isinstance(value, kind)


def _items(inner: tuple[Any, ...], length: int) -> tuple[Any, ...]:
    """The types of the items of a list, from those in the brackets of its type."""
    if len(inner) > 1 and inner[-1] is not ...:
        return inner
    return (inner or (Any,))[:1] * length


def _described(hint: Any) -> str:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in UNIONS:
        return " or ".join(dict.fromkeys(map(_described, inner)))
    if kind is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if not inspect.isclass(kind):
        return str(kind)
    if issubclass(kind, os.PathLike):
        return "a path"
    if issubclass(kind, Mapping):
        return "a dict"
    if kind in (Sequence, Collection, Iterable, list, tuple, set):
        return f"a list of {len(inner)}" if len(inner) > 1 and inner[-1] is not ... else "a list"
    return NAMES.get(kind) or f"a {kind.__name__}"
