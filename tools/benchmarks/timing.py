"""What the benchmarks share: alternating runs, medians and ratios, tables."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Seconds = Mapping[str, list[float]]


def clocked(run: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


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


def repeated(run: Callable[[], Any], repeats: int) -> float:
    """The median seconds of a call, after one warm-up."""
    return statistics.median([clocked(run) for _ in range(repeats + 1)][1:])


def show(title: str, measured: Mapping[str, Any]) -> None:
    """Print what was measured as a table."""
    table = Table(title=title, show_header=False)
    for name, value in measured.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, number in inner.items():
            text = f"{number:,.4g}" if isinstance(number, float) else str(number)
            table.add_row(f"{name}: {key}" if key else name, text)
    Console().print(table)


def write_json(measured: Mapping[str, Any], path: Path) -> None:
    """Write what was measured."""
    path.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
