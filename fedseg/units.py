"""Bytes, durations, memory and cores, measured and written for people; shares of a number."""

import math
import os
import sys

DIGITS = 6  # of a product of a share and a number; what is beyond them is rounding


def format_bytes(count: float) -> str:
    """A number of bytes with a binary unit: ``"1.5 MiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def format_duration(seconds: float) -> str:
    """Seconds as ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def floor_share(share: float, count: int) -> int:
    """``share * count`` rounded down: 29 for 0.29 of 100, whose float product is below 29."""
    return math.floor(round(share * count, DIGITS))


def ceil_share(share: float, count: int) -> int:
    """``share * count`` rounded up: 7 for 0.07 of 100, whose float product is above 7."""
    return math.ceil(round(share * count, DIGITS))


def peak_memory() -> int | None:
    """Bytes of memory that this process has used at most; None on systems that do not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux KiB


def count_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
