"""Measure the engine: tools/benchmark.py classification (or segmentation, algorithms, state)."""

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from fedseg import cli

CONFIGS = {
    "classification": Path("configs/settings/cifar10_a005.py"),
    "segmentation": Path("configs/demo.py"),
}
CLIENTS = {"classification": 5, "segmentation": 2, "algorithms": 5, "state": 1262}


def positive(text: str) -> int:
    """A positive integer of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, not {text!r}")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the engine's speed and memory.")
    parser.add_argument("what", choices=CLIENTS)
    parser.add_argument("--config", type=Path, help="an experiment (default: the usual one)")
    parser.add_argument("--repeats", type=positive, default=5, help="alternating runs (default: 5)")
    parser.add_argument(
        "--clients",
        type=positive,
        help="participants of a round (default: 5; segmentation: 2; state: 1262)",
    )
    parser.add_argument("--threads", type=positive, help="threads of PyTorch (default: its own)")
    parser.add_argument("--amp", action="store_true", help="bfloat16 (classification: too)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--cfg-options", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--local-steps",
        type=positive,
        default=12,
        help="segmentation: steps a client (default: 12)",
    )
    parser.add_argument(
        "--samples",
        type=positive,
        default=500,
        help="CIFAR-10 without its data: random images a client (default: 500)",
    )
    parser.add_argument(
        "--test-images", type=positive, default=10_000, help="and of the test (default: 10000)"
    )
    parser.add_argument(
        "--parameters",
        type=positive,
        default=3_500_000,
        help="state: elements of a vector (default: 3500000)",
    )
    parser.add_argument(
        "--vectors", type=positive, default=1, help="state: vectors of each client (default: 1)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="algorithms: these, beside FedAvg"
    )
    parser.add_argument(
        "--resnet56", action="store_true", help="algorithms: those of FedAlign's table instead"
    )
    parser.add_argument("--markdown", action="store_true", help="algorithms: a Markdown table")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.config is not None and arguments.what not in CONFIGS:
        parser.error(f"--config: {arguments.what} has experiments of its own")
    return arguments


def segmentation(arguments: argparse.Namespace, config: Any) -> dict[str, Any]:
    """The figures of a segmentation round, with memory."""
    from benchmarks import segmentation as benchmark

    config.train_cfg["amp"] = arguments.amp
    if arguments.memory_of is not None:
        return {"peak_mib": benchmark.peak_of_round(config, arguments.memory_of)}
    figures = benchmark.segmentation(
        config, arguments.repeats, arguments.clients, arguments.local_steps
    )
    figures["peak memory, MiB"] = benchmark.memory(sys.argv)
    return figures


def classification(arguments: argparse.Namespace, config: Any) -> dict[str, Any]:
    """The figures of a classification round."""
    from benchmarks import classification as benchmark

    config = benchmark.adapt(config, arguments.clients, arguments.samples, arguments.test_images)
    return benchmark.classification(config, arguments.repeats, arguments.amp)


def algorithms(arguments: argparse.Namespace) -> None:
    """Show what each algorithm costs beside FedAvg."""
    import torch
    from benchmarks import algorithms as benchmark
    from rich.console import Console

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    known = benchmark.RESNET56 if arguments.resnet56 else benchmark.CNN
    with tempfile.TemporaryDirectory() as work_dir:
        rounds = benchmark.prepare(
            benchmark.choose(known, arguments.only),
            Path(work_dir),
            arguments.clients,
            arguments.samples,
            arguments.amp,
            arguments.cfg_options,
        )
        figures = benchmark.algorithms(rounds, arguments.repeats)
    network = "ResNet56" if arguments.resnet56 else "CNN"
    precision = "bfloat16" if arguments.amp else "float32"
    title = f"CIFAR-10, {network}, {torch.get_num_threads()} threads, {precision}"
    if arguments.markdown:
        print(f"{title}\n\n{benchmark.as_markdown(figures)}")
    else:
        Console().print(benchmark.as_table(title, figures))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def state(arguments: argparse.Namespace) -> None:
    """Show the figures of clients' states on disk, in the system's folder for temporary files."""
    from benchmarks import state as benchmark
    from benchmarks.pairs import show

    with tempfile.TemporaryDirectory() as folder:
        figures = benchmark.state(
            Path(folder), arguments.clients, arguments.parameters, arguments.vectors
        )
    show(f"states on disk, {Path(folder).parent}", figures, arguments.out)


def main() -> int:
    arguments = parse_arguments()
    arguments.clients = arguments.clients or CLIENTS[arguments.what]
    warnings.filterwarnings("ignore")
    if arguments.what in ("state", "algorithms"):
        globals()[arguments.what](arguments)
        return 0
    arguments.config = arguments.config or CONFIGS[arguments.what]
    import torch
    from benchmarks.pairs import show

    from fedseg.runner.experiment import load_config, naming

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as work_dir:
        config = load_config(
            arguments.config, work_dir=Path(work_dir), options=arguments.cfg_options
        )
        with naming(config):
            figures = globals()[arguments.what](arguments, config)
    if arguments.memory_of is not None:
        print(json.dumps(figures))
        return 0
    precision = "bfloat16" if arguments.amp and arguments.what == "segmentation" else "float32"
    if arguments.amp and arguments.what == "classification":
        precision = "float32 and bfloat16"
    title = f"{arguments.config.name}, {torch.get_num_threads()} threads, {precision}"
    show(title, figures, arguments.out)
    return 0


if __name__ == "__main__":
    cli.run(main)
