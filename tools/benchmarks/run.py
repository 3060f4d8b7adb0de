"""Measure the engine: python tools/benchmarks/run.py classification (--help lists the others).

A benchmark is a function of a temporary folder and of options, which are its other parameters. It
returns numbers by name.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

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
}


def parse_options(name: str, benchmark: Callable[..., Any]) -> argparse.Namespace:
    """The options of a benchmark and those that all have; those not given are left out."""
    parser = argparse.ArgumentParser(
        prog=f"run.py {name}",
        description=f"{benchmark.__doc__} The function {name} has the defaults.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--out", type=Path, default=None, help="write what was measured as JSON")
    text = "print a Markdown table"
    parser.add_argument("--markdown", action="store_true", default=False, help=text)
    text = "threads of PyTorch (default: its own)"
    parser.add_argument("--threads", type=cli.positive, default=None, metavar="N", help=text)
    OPTIONS[name](parser)
    return parser.parse_args(sys.argv[2:])


def add_classification(parser: argparse.ArgumentParser) -> None:
    """Options of a round of a small classifier."""
    add_round(parser)
    add_samples(parser)
    text = "test images of noise if the data set is not there"
    parser.add_argument("--test-images", type=cli.positive, metavar="N", help=text)
    parser.add_argument("--amp", action="store_true", help="bfloat16 in addition to float32")
    add_cfg_options(parser)


def add_small_clients(parser: argparse.ArgumentParser) -> None:
    """Options of rounds of many clients with few images."""
    parser.add_argument("--clients", type=cli.positive, metavar="N", help="clients in all")
    parser.add_argument("--per-round", type=cli.positive, metavar="N", help="clients per round")
    parser.add_argument("--samples", type=cli.positive, metavar="N", help="images per client")
    parser.add_argument("--repeats", type=cli.positive, metavar="N", help="alternating runs")


def add_segmentation(parser: argparse.ArgumentParser) -> None:
    """Options of steps of a segmentation round."""
    text = "an experiment with a segmentation network"
    parser.add_argument("--config", type=Path, help=text)
    add_round(parser)
    parser.add_argument("--local-steps", type=cli.positive, metavar="N", help="steps per client")
    parser.add_argument("--amp", action="store_true", help="bfloat16")
    add_cfg_options(parser)


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    """Options of an evaluation of a segmentation network."""
    text = "an experiment with a segmentation network"
    parser.add_argument("--config", type=Path, help=text)
    text = "images of the last test set"
    parser.add_argument("--images", type=cli.positive, metavar="N", help=text)
    parser.add_argument("--repeats", type=cli.positive, metavar="N", help="alternating runs")
    add_cfg_options(parser)


def add_algorithms(parser: argparse.ArgumentParser) -> None:
    """Options of rounds of every algorithm."""
    text = "these algorithms, beside FedAvg"
    parser.add_argument("--only", nargs="+", metavar="NAME", help=text)
    text = "those of FedAlign's table instead, with its network"
    parser.add_argument("--resnet56", action="store_true", help=text)
    add_round(parser)
    add_samples(parser)
    parser.add_argument("--amp", action="store_true", help="bfloat16")
    add_cfg_options(parser)


def add_state(parser: argparse.ArgumentParser) -> None:
    """Options of clients' states on disk."""
    parser.add_argument("--clients", type=cli.positive, metavar="N", help="clients in all")
    text = "parameters of the model; a client keeps one vector of them"
    parser.add_argument("--parameters", type=cli.positive, metavar="N", help=text)


def add_overhead(parser: argparse.ArgumentParser) -> None:
    """Options of rounds of clients that train nothing."""
    text = "parameters of the model"
    parser.add_argument("--parameters", type=cli.positive, metavar="N", help=text)
    text = "numbers of clients per round"
    parser.add_argument("--clients", type=cli.positive, nargs="+", metavar="N", help=text)
    text = "numbers of workers"
    parser.add_argument("--workers", type=cli.positive, nargs="+", metavar="N", help=text)
    parser.add_argument("--repeats", type=cli.positive, metavar="N", help="rounds")


def add_parallel(parser: argparse.ArgumentParser) -> None:
    """Options of rounds on workers."""
    parser.add_argument("--config", type=Path, help="an experiment")
    add_round(parser)
    add_samples(parser)
    text = "numbers of workers"
    parser.add_argument("--workers", type=cli.positive, nargs="+", metavar="N", help=text)
    add_cfg_options(parser)


def add_round(parser: argparse.ArgumentParser) -> None:
    """Options of most benchmarks."""
    parser.add_argument("--clients", type=cli.positive, metavar="N", help="clients per round")
    parser.add_argument("--repeats", type=cli.positive, metavar="N", help="measured runs")


def add_samples(parser: argparse.ArgumentParser) -> None:
    """The option of those that can train on noise."""
    text = "images per client, noise if the data set is not there"
    parser.add_argument("--samples", type=cli.positive, metavar="N", help=text)


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    """The option of those that train an experiment."""
    text = "override config fields"
    parser.add_argument("--cfg-options", nargs="+", metavar="KEY=VALUE", help=text)


OPTIONS = {
    "classification": add_classification,
    "small_clients": add_small_clients,
    "segmentation": add_segmentation,
    "evaluation": add_evaluation,
    "algorithms": add_algorithms,
    "state": add_state,
    "overhead": add_overhead,
    "parallel": add_parallel,
}


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
