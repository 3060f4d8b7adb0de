"""Shared by the benchmarks: alternating runs, medians and ratios, peaks of memory, tables."""

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
    """The result of a function in a new process, whose peak memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def peak() -> float:
    """Peak memory of this process, MiB; ConfigError if the system does not tell."""
    size = peak_memory()
    if size is None:
        raise ConfigError("this system does not report a process's peak memory")
    return size / 2**20


def alternate(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each side in each of ``repeats`` alternating runs, after one warm-up each.

    Alternating lets a drift of the machine's speed hit all sides.
    """
    for run in sides.values():
        run()
    turns = [{name: clocked(run) for name, run in sides.items()} for _ in range(repeats)]
    return {name: [turn[name] for turn in turns] for name in sides}


def median_ratio(seconds: Seconds, one: str, other: str) -> float:
    """The median over the pairs of runs."""
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def medians(seconds: Seconds) -> dict[str, float]:
    """The median of each side."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def as_table(title: str, measured: Mapping[str, Any]) -> TextTable:
    """A row for each number; dicts of equal keys that are named ``methods`` are rows themselves."""
    rows, methods = [], measured.get("methods")
    if methods:
        columns = list(next(iter(methods.values())))
        rows = [(name, *(_text(one[c]) for c in columns)) for name, one in methods.items()]
        return TextTable(title, ("", *columns), tuple(rows), right=range(1, 1 + len(columns)))
    for name, value in measured.items():
        for key, number in (value if isinstance(value, dict) else {"": value}).items():
            rows.append((f"{name}: {key}" if key else name, _text(number)))
    return TextTable(title, ("", ""), tuple(rows), right=(1,))


def _text(number: Any) -> str:
    return f"{number:,.4g}" if isinstance(number, float) else str(number)
