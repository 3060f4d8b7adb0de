"""What the benchmarks share: alternating runs, medians and ratios, peaks of memory, tables."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from fedseg.errors import ConfigError
from fedseg.runs.tables import TextTable
from fedseg.units import peak_memory

Seconds = Mapping[str, list[float]]


def clocked(run: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives in a new process, whose peak memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def peak() -> float:
    """Memory that this process has used at most, MiB; ConfigError if the system does not tell."""
    found = peak_memory()
    if found is None:
        raise ConfigError("this system does not report a process's peak memory")
    return found / 2**20


def alternate(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each side in each of ``repeats`` alternating runs, after one warm-up each.

    Alternating lets a drift of the machine's speed hit all sides.
    """
    for run in sides.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            seconds[name].append(clocked(run))
    return seconds


def median_ratio(seconds: Seconds, one: str, other: str) -> float:
    """The median over the pairs of runs."""
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def medians(seconds: Seconds) -> dict[str, float]:
    """Of each side."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def as_table(title: str, measured: Mapping[str, Any]) -> TextTable:
    """What was measured, a row for each number."""
    rows = []
    for name, value in measured.items():
        for key, number in (value if isinstance(value, dict) else {"": value}).items():
            text = f"{number:,.4g}" if isinstance(number, float) else str(number)
            rows.append((f"{name}: {key}" if key else name, text))
    return TextTable(title, ("", ""), tuple(rows), right=(1,))
