"""Options are checked in one way: the message names the field, the bounds and the value."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from fedseg.checks import check_float, check_int, check_type
from fedseg.errors import ConfigError


@pytest.mark.parametrize("value", [0, 0.0, 1e-37, 3, 0.5, 1e37])
def test_numbers(value):
    check_float("algorithm.mu", value, least=0)


@pytest.mark.parametrize(
    "value", ["1", None, True, math.nan, math.inf, -math.inf, -1, [1], 1j, 10**400]
)
def test_what_is_no_number(value):
    with pytest.raises(ConfigError, match=r"^algorithm\.mu: must be a finite number >= 0, not "):
        check_float("algorithm.mu", value, least=0)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "told"),
    [
        ({"above": 0, "most": 1}, [0.1, 1], [0, 1.1], "> 0 and <= 1"),
        ({"least": 0, "below": 1}, [0, 0.9], [-0.1, 1], ">= 0 and < 1"),
        ({"most": 2}, [-3, 2], [2.5], "<= 2"),
    ],
)
def test_bounds(bounds, inside, outside, told):
    for value in inside:
        check_float("a.b", value, **bounds)
    for value in outside:
        with pytest.raises(ConfigError, match=rf"^a\.b: must be a finite number {told}, not "):
            check_float("a.b", value, **bounds)


@pytest.mark.parametrize("value", [1e-40, 1e39, 1e300, -1e39])
def test_what_single_precision_does_not_hold(value):
    with pytest.raises(ConfigError, match=r"^a\.b: .* does not fit single precision.*1e-37"):
        check_float("a.b", value)
    check_float("a.b", value, single=False)


def test_whole_numbers():
    check_int("a.b", 1)
    check_int("a.b", 0, least=0)
    for value in (0, 1.0, "1", True, None):
        with pytest.raises(ConfigError, match=r"^a\.b: must be a positive integer, not "):
            check_int("a.b", value)
    with pytest.raises(ConfigError, match=r"^a\.b: must be a whole number >= 0, not -1"):
        check_int("a.b", -1, least=0)
    check_int("a.b", "all", also="all")
    for value in (0, "most"):
        with pytest.raises(ConfigError, match=r"^a\.b: must be a positive integer or 'all', not "):
            check_int("a.b", value, also="all")


@pytest.mark.parametrize("value", ["False", "", 0, 1, None, math.nan])
def test_flags(value):
    check_type("algorithm.admm", True, bool)
    check_type("algorithm.admm", False, bool)
    with pytest.raises(ConfigError, match=r"^algorithm\.admm: must be True or False, not "):
        check_type("algorithm.admm", value, bool)


FITS = [
    (int, 3), (float, 3), (float, 0.5), (bool, False), (str, ""), (Path, "a/b"), (None, None),
    (Any, object), (str | None, None), (int | None, 2), (Literal["a", 1], 1), (dict, {"a": 1}),
    (Sequence[float], (0.5, 1)), (tuple[int, int], [1, 2]), (list[int], []), ("bool", True),
    (Mapping[str, Mapping | None], {"a": {}, "b": None}), (Callable, print), (Callable | dict, {}),
    (Path, Path("a")), (tuple[float, ...], [1, 2, 3]), (dict, object()), ("Unknown", "anything"),
]  # fmt: skip
MISFITS = [
    (int, True), (int, 1.0), (int, "1"), (int, 10**30), (float, True), (float, math.nan),
    (float, math.inf), (float, 10**400), (bool, 1), (bool, "False"), (str, 1), (str, None),
    (None, 0), (Literal["a", 1], True), (Literal["a"], "b"), (Mapping, []), (Sequence[int], "12"),
    (Sequence[int] | None, 3), (tuple[int, int], [1, 2, 3]), (Path, 3), (Callable, "print"),
    ("bool", 0), (int | str, [1]), (dict, "a"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), FITS)
def test_what_fits_a_type(hint, value):
    check_type("a.b", value, hint)


@pytest.mark.parametrize(("hint", "value"), MISFITS)
def test_what_does_not_fit_a_type(hint, value):
    with pytest.raises(ConfigError, match=r"^a\.b: must be .*, not "):
        check_type("a.b", value, hint)


@pytest.mark.parametrize(
    ("hint", "value", "field"),
    [
        (Sequence[float], [0.1, "x"], r"a\[1\]"),
        (tuple[str, int] | None, ["x", 1.5], r"a\[1\]"),
        (Mapping[str, Mapping | None] | None, {"x": {}, "y": 3}, r"a\.y"),
        (Mapping[str, Sequence[int]], {"x": [1, True]}, r"a\.x\[1\]"),
    ],
)
def test_the_item_that_does_not_fit_is_named(hint, value, field):
    with pytest.raises(ConfigError, match=f"^{field}: must be "):
        check_type("a", value, hint)


def test_a_number_that_python_cannot_write():
    for check in (check_int, check_float, partial(check_type, hint=bool)):
        with pytest.raises(ConfigError, match=r"^a: .*digits"):
            check("a", 10**5000)
