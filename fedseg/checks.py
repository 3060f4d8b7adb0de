"""Options of components: a wrong one is a ConfigError that names the field and what it may be."""

import math
from numbers import Real
from typing import Any

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
        value: what the config says.
        least, most: bounds that it may reach. above, below: bounds that it may not reach.
        single: whether vectors of a model in single precision are computed with it.
    """
    bounds = [(">=", least), (">", above), ("<=", most), ("<", below)]
    wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if math.isfinite(bound))
    is_finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not is_finite or not (least <= value <= most and above < value < below):
        number = f"a finite number {wanted}".rstrip()
        raise ConfigError(f"{field}: must be {number}, not {value!r}")
    if single and value and not SMALLEST <= abs(value) <= LARGEST:
        raise ConfigError(
            f"{field}: {value!r} does not fit single precision, which has {SMALLEST:g} to "
            f"{LARGEST:g}: use a number in between"
        )


def check_bool(field: str, value: Any) -> None:
    """Raise ConfigError unless an option is True or False; the text "False" would count as True."""
    if not isinstance(value, bool):
        raise ConfigError(f"{field}: must be True or False, not {value!r}")


def check_int(field: str, value: Any, least: int = 1, also: str | None = None) -> None:
    """Raise ConfigError unless an option is a whole number of at least ``least``, or ``also``."""
    if also is not None and value == also:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kind = "positive integer" if least == 1 else f"whole number >= {least}"
        other = f" or {also!r}" if also is not None else ""
        raise ConfigError(f"{field}: must be a {kind}{other}, not {value!r}")
