"""Options are checked in one way: the message names the field, the bounds and the value."""

import math

import pytest

from fedseg.checks import check_bool, check_float, check_int
from fedseg.errors import ConfigError


@pytest.mark.parametrize("value", [0, 0.0, 1e-37, 3, 0.5, 1e37])
def test_numbers(value):
    check_float("algorithm.mu", value, least=0)


@pytest.mark.parametrize("value", ["1", None, True, math.nan, math.inf, -math.inf, -1, [1], 1j])
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
    check_bool("algorithm.admm", True)
    check_bool("algorithm.admm", False)
    with pytest.raises(ConfigError, match=r"^algorithm\.admm: must be True or False, not "):
        check_bool("algorithm.admm", value)
