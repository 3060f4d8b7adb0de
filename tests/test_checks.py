"""Values in messages and among numbers."""

import math

import pytest

from fedseg.checks import is_number, shown


@pytest.mark.parametrize("value", ["1", None, True, math.nan, math.inf, [1], 1j, 10**400])
def test_what_is_no_number(value):
    assert not is_number(value)


def test_numbers():
    assert is_number(0) and is_number(-0.5) and is_number(10**300)


def test_long_values_are_cut():
    assert shown("a") == "'a'"
    assert len(shown("a" * 1000)) == 200 and shown([1] * 1000, 20).endswith(" ...")
    assert "digits" in shown(10**5000)
