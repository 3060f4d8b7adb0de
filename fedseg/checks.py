"""Options of components: a wrong one is a ConfigError that names the field and what it may be."""

import math
from numbers import Real
from typing import Any

from fedseg.errors import ConfigError


def check_number(
    field: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
) -> None:
    """Raise ConfigError unless an option is a finite number within its bounds.

    Args:
        field: its name in the config, for example ``"algorithm.mu"``.
        value: what the config says.
        least, most: bounds that it may reach. above, below: bounds that it may not reach.
    """
    bounds = [(">=", least), (">", above), ("<=", most), ("<", below)]
    told = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if math.isfinite(bound))
    sound = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not sound or not (least <= value <= most and above < value < below):
        number = f"a finite number {told}".rstrip()
        raise ConfigError(f"{field}: must be {number}, not {value!r}")


def check_whole(field: str, value: Any, least: int = 1) -> None:
    """Raise ConfigError unless an option is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kind = "positive integer" if least == 1 else f"whole number >= {least}"
        raise ConfigError(f"{field}: must be a {kind}, not {value!r}")
