"""Measure the engine: python tools/benchmarks/run.py classification (--help lists the others).

A benchmark is a function of a temporary folder and of options, which are its other parameters:
``Annotated[type, help]`` with a default. It returns numbers by name.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from fedseg import cli
from fedseg.runs.tables import TextTable

BENCHMARKS = {  # name -> module
    "classification": "classification",
    "small_clients": "classification",
    "segmentation": "segmentation",
    "evaluation": "segmentation",
    "algorithms": "algorithms",
    "state": "state",
    "overhead": "parallel",
    "parallel": "parallel",
    "startup": "startup",
}


def parse_options(name: str, benchmark: Callable[..., Any]) -> argparse.Namespace:
    """The options of a benchmark and those that all have."""
    usage = argparse.ArgumentParser(prog=f"run.py {name}", description=benchmark.__doc__)
    usage.add_argument("--out", type=Path, help="write what was measured as JSON")
    usage.add_argument("--markdown", action="store_true", help="print a Markdown table")
    usage.add_argument("--threads", type=cli.positive, help="threads of PyTorch (default: its own)")
    for option, parameter in list(signature(benchmark).parameters.items())[1:]:
        kind, text = get_args(parameter.annotation)
        style = cli.read_type(kind)
        if style.get("type") is int:
            style["type"] = cli.positive
        text += f" (default: {parameter.default})" if parameter.default else ""
        usage.add_argument(cli.flag(option), **style, default=argparse.SUPPRESS, help=text)
    return usage.parse_args(sys.argv[2:])


def as_table(title: str, measured: Mapping[str, Any]) -> TextTable:
    """A row for each number; dicts of equal keys that are named ``methods`` are rows themselves."""
    rows, methods = [], measured.get("methods")
    if methods:
        columns = list(next(iter(methods.values())))
        rows = [(name, *(_format(row[c]) for c in columns)) for name, row in methods.items()]
        return TextTable(title, ("", *columns), tuple(rows), right=range(1, 1 + len(columns)))
    for name, value in measured.items():
        for key, number in (value if isinstance(value, dict) else {"": value}).items():
            rows.append((f"{name}: {key}" if key else name, _format(number)))
    return TextTable(title, ("", ""), tuple(rows), right=(1,))


def _format(number: Any) -> str:
    return f"{number:,.4g}" if isinstance(number, float) else str(number)


def main() -> None:
    usage = argparse.ArgumentParser(description="Measure the engine's speed and memory.")
    usage.add_argument("what", metavar="WHAT", choices=BENCHMARKS, help=", ".join(BENCHMARKS))
    name = usage.parse_args(sys.argv[1:2]).what
    warnings.filterwarnings("ignore")
    benchmark = getattr(import_module(f"benchmarks.{BENCHMARKS[name]}"), name)
    options = vars(parse_options(name, benchmark))
    out, markdown, threads = (options.pop(key) for key in ("out", "markdown", "threads"))
    import torch
    from rich.console import Console

    if threads is not None:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        measured = benchmark(Path(folder), **options)
    table = as_table(f"{name}, {torch.get_num_threads()} threads", measured)
    if markdown:
        print(f"{table.title}\n\n{table.to_markdown()}")
    else:
        Console().print(table.to_rich())
    if out is not None:
        out.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the others are benchmarks.<name>
    cli.run(main)
