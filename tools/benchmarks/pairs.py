"""What the benchmarks of ``tools/benchmark.py`` share: alternating runs, tables."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def compare(rounds: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each function in each of ``repeats`` alternating runs, after one warm-up each."""
    for run in rounds.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(repeats):
        for name, run in rounds.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def show(title: str, figures: dict[str, Any], out: Path | None = None) -> None:
    """Print figures as a table, and write them as JSON if a file is given."""
    table = Table(title=title, show_header=False)
    for name, value in figures.items():
        if isinstance(value, dict):
            for inner, number in value.items():
                table.add_row(f"{name}: {inner}", f"{number:,.4g}")
        else:
            table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
    if out is not None:
        out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
