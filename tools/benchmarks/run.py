"""Measure the engine: python tools/benchmarks/run.py classification (--help lists the others)."""

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from fedseg import cli

CONFIGS = Path(__file__).parents[2] / "configs"


def positive(text: str) -> int:
    """A positive integer of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, not {text!r}")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the engine's speed and memory.")
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument("--out", type=Path, help="write what was measured as JSON")
    everywhere.add_argument("--markdown", action="store_true", help="print a Markdown table")
    rounds = argparse.ArgumentParser(add_help=False, parents=[everywhere])
    add = rounds.add_argument
    add("--repeats", type=positive, default=5, help="alternating runs (default: 5)")
    add("--threads", type=positive, help="threads of PyTorch (default: its own)")
    add("--amp", action="store_true", help="bfloat16 (classification: in addition to float32)")
    add("--cfg-options", nargs="+", default=[], metavar="KEY=VALUE")
    cifar = argparse.ArgumentParser(add_help=False, parents=[rounds])
    samples = "images per client, random ones if the data set is not there (default: 500)"
    cifar.add_argument("--samples", type=positive, default=500, help=samples)
    cifar.add_argument("--clients", type=positive, default=5, help="per round (default: 5)")

    one = commands.add_parser(
        "classification", parents=[cifar], help="a round beside hand-written loops"
    )
    one.add_argument("--config", type=Path, default=CONFIGS / "settings" / "cifar10_a005.py")
    one.add_argument("--test-images", type=positive, default=10_000, help="random ones likewise")

    one = commands.add_parser(
        "segmentation", parents=[rounds], help="steps beside a hand-written loop, and memory"
    )
    one.add_argument("--config", type=Path, default=CONFIGS / "demo.py")
    one.add_argument("--clients", type=positive, default=2, help="per round (default: 2)")
    one.add_argument("--local-steps", type=positive, default=12, help="per client (default: 12)")
    instead = "instead: a step of BiSeNetV2 with either heads at 512 x 928, so many images a batch"
    one.add_argument("--heads", type=positive, metavar="IMAGES", help=instead)

    one = commands.add_parser("algorithms", parents=[cifar], help="every algorithm beside FedAvg")
    one.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these, beside FedAvg")
    one.add_argument("--resnet56", action="store_true", help="those of FedAlign's table instead")

    one = commands.add_parser("state", parents=[everywhere], help="clients' states on disk")
    one.add_argument("--clients", type=positive, default=1262, help="in all (default: 1262)")
    one.add_argument("--parameters", type=positive, default=3_500_000, help="default: 3500000")

    one = commands.add_parser(
        "overhead", parents=[everywhere], help="rounds of clients that train nothing"
    )
    one.add_argument("--parameters", type=positive, default=15_000_000, help="default: 15000000")
    one.add_argument("--clients", type=positive, default=10, help="per round (default: 10)")
    one.add_argument("--workers", type=positive, nargs="+", default=[2], help="default: 2")
    one.add_argument("--repeats", type=positive, default=20, help="rounds (default: 20)")
    peers = "also in the simulations of Flower and pfl-research that this interpreter has"
    one.add_argument("--peers", metavar="PYTHON", help=peers)

    one = commands.add_parser(
        "memory", parents=[everywhere], help="peaks of rounds of clients that train nothing"
    )
    one.add_argument("--parameters", type=positive, default=100_000, help="default: 100000")
    one.add_argument("--participants", type=positive, nargs="+", default=[10, 100, 1000])
    one.add_argument("--workers", type=positive, default=2, help="default: 2")

    one = commands.add_parser(
        "parallel", parents=[cifar], help="images a second of workers, and of processes apart"
    )
    one.add_argument("--config", type=Path, default=CONFIGS / "settings" / "cifar10_a005.py")
    one.add_argument("--workers", type=positive, nargs="+", default=[1, 2], help="default: 1 2")

    one = commands.add_parser(
        "scaling", parents=[everywhere], help="a model of many workers, from what was measured"
    )
    add = one.add_argument
    add("--step", type=float, default=0.25, help="seconds of a local step (default: 0.25)")
    add("--steps", type=positive, default=24, help="of a client (default: 24)")
    add("--client", type=float, default=0.06, help="seconds of a client beside its steps")
    add("--add", type=float, default=0.03, help="seconds of the server for a block")
    add("--fixed", type=float, default=0.3, help="seconds of the server for a round")
    add("--parameters", type=positive, default=15_000_000, help="default: 15000000")
    add("--network", type=float, default=10.0, help="Gbit/s into a machine (default: 10)")
    add("--machine", type=positive, default=8, help="workers of a machine (default: 8)")
    add("--participants", type=positive, nargs="+", default=[10, 100, 1000, 10_000])
    add("--workers", type=positive, nargs="+", default=[1, 2, 8, 64, 512])
    add("--picture", type=Path, help="draw rounds an hour by the number of workers into this file")
    one = commands.add_parser("curvature", parents=[everywhere], help="Hessian products")
    add = one.add_argument
    add("--images", type=positive, default=1000, help="of a product (default: 1000)")
    add("--eigenvalue-images", type=positive, default=5000, help="default: 5000")
    add("--repeats", type=positive, default=5, help="alternating runs (default: 5)")
    add("--threads", type=positive, help="threads of PyTorch (default: its own)")
    return parser.parse_args()


def classification(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A round beside hand-written loops."""
    from benchmarks.classification import adapt, classification

    from fedseg.config.layers import naming
    from fedseg.runner.experiment import load_config

    config = load_config(arguments.config, work_dir=folder, options=arguments.cfg_options)
    adapt(config, arguments.clients, arguments.samples, arguments.test_images)
    with naming(config):
        return classification(config, arguments.repeats, arguments.amp)


def segmentation(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Steps beside a hand-written loop, and memory."""
    from benchmarks.segmentation import heads, memory, segmentation

    from fedseg.config.layers import naming
    from fedseg.runner.experiment import load_config

    if arguments.heads is not None:
        return heads(arguments.heads, arguments.repeats, arguments.amp)
    config = load_config(arguments.config, work_dir=folder, options=arguments.cfg_options)
    config.train_cfg.amp = arguments.amp
    shape = (arguments.clients, arguments.local_steps)
    with naming(config):
        peaks = memory(config)
        return {**segmentation(config, arguments.repeats, *shape), "peak memory, MiB": peaks}


def algorithms(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Every algorithm beside FedAvg."""
    from benchmarks.algorithms import algorithms, choose, prepare

    methods = choose(arguments.only, arguments.resnet56)
    shape = (arguments.clients, arguments.samples, arguments.amp, arguments.cfg_options)
    return algorithms(prepare(methods, folder, *shape), arguments.repeats)


def state(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Clients' states on disk, in the system's folder for temporary files."""
    from benchmarks.state import state

    return state(folder / "state", arguments.clients, arguments.parameters)


def overhead(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Rounds of clients that train nothing."""
    from benchmarks.parallel import overhead, peers

    shape = (arguments.parameters, arguments.clients, arguments.workers, arguments.repeats)
    found = overhead(folder, *shape)
    return found if arguments.peers is None else {**found, **peers(arguments.peers, *shape)}


def memory(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Peaks of rounds of clients that train nothing."""
    from benchmarks.parallel import memory

    return memory(folder, arguments.parameters, arguments.participants, arguments.workers)


def parallel(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Images a second of workers, and of independent processes."""
    from benchmarks.classification import adapt
    from benchmarks.parallel import parallel

    from fedseg.runner.experiment import load_config

    config = load_config(arguments.config, work_dir=folder, options=arguments.cfg_options)
    if config.train_dataloader.get("type") == "ResidentData":
        adapt(config, arguments.clients, arguments.samples, test_images=1)
    config.train_cfg.amp = arguments.amp
    return parallel(config, arguments.clients, arguments.workers, arguments.repeats)


def scaling(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A model of many workers."""
    from benchmarks.scaling import Costs, draw, limits, table

    costs = Costs(
        *(arguments.step, arguments.client, arguments.add, arguments.fixed),
        vector=4.0 * arguments.parameters,
        network=arguments.network * 1e9 / 8,
        machine=arguments.machine,
    )
    most = max(arguments.participants)
    if arguments.picture is not None:
        draw(costs, arguments.steps, arguments.participants, arguments.picture)
    found = table(costs, arguments.steps, arguments.participants, arguments.workers)
    title = f"{most:,} participants, half of each worker used up to"
    return {**found, title: limits(costs, arguments.steps, most)}


def curvature(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Hessian products beside two passes by hand, and five eigenvalues."""
    from benchmarks.curvature import curvature

    return curvature(arguments.images, arguments.eigenvalue_images, arguments.repeats)


def main() -> None:
    arguments = parse_arguments()
    warnings.filterwarnings("ignore")
    import torch
    from benchmarks.timing import as_table
    from rich.console import Console

    if getattr(arguments, "threads", None) is not None:
        torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        measured = globals()[arguments.what](arguments, Path(folder))
    if arguments.what == "algorithms":
        from benchmarks.algorithms import as_table
    table = as_table(f"{arguments.what}, {torch.get_num_threads()} threads", measured)
    if arguments.markdown:
        print(f"{table.title}\n\n{table.to_markdown()}")
    else:
        Console().print(table.to_rich())
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the others are benchmarks.<name>
    cli.run(main)
