"""Command line options of the prepare tools, and what they ask for."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedseg import cli
from fedseg.names import OVERLAP, PARTITIONS, SHAPES

if TYPE_CHECKING:
    from .image_partitions import NamedPartition

NO_SPLIT = "none"
SMALLEST = 32  # side of a rendered street scene, pixels
PACHINKO = {"clients": 500, "alpha": 0.1, "beta": 10.0}  # of Reddi et al. (2021)
T = TypeVar("T")


def parser(
    description: str, epilog: str, root: str | None = None, overwrite: bool = True
) -> argparse.ArgumentParser:
    """A parser with ``--root`` and ``--overwrite``.

    Without ``root`` it is ``data/DATASET``, and of rendered images :data:`fedseg.names.SHAPES`.
    """
    made = cli.parser(description, epilog)
    made.add_argument(
        "--root",
        type=Path,
        default=None if root is None else Path(root),
        help=f"the data root (default: {root or f'data/DATASET, of rendered images {SHAPES}'})",
    )
    if overwrite:
        made.add_argument(
            "--overwrite", action="store_true", help="replace existing files that differ"
        )
    return made


def parse(made: argparse.ArgumentParser, needed: str) -> argparse.Namespace:
    """The arguments; a root that is not there is told before anything slow is imported.

    ``needed`` is what the root must hold where no option says otherwise.
    """
    args = made.parse_args()
    rendered = vars(args).get("synthetic")
    args.root = args.root or (Path(SHAPES) if rendered else Path("data", vars(args)["dataset"]))
    if not any(vars(args).get(way) for way in ("source", "synthetic", "download")):
        usage = made.format_usage()
        ways = ["--root", *(w for w in ("--source", "--download", "--synthetic") if w in usage)]
        cli.check_there([args.root], f"put {needed} there, or give {' or '.join(ways)}")
    return args


def options(kind: type[T], args: argparse.Namespace, **more: Any) -> T:
    """A dataclass of options from the parsed arguments of the same names."""
    named = {f.name: getattr(args, f.name) for f in fields(kind) if hasattr(args, f.name)}
    return kind(**{**named, **more})


def add_benchmark(made: argparse.ArgumentParser, distributions: Sequence[str], size: str) -> None:
    """Add the options of a data set with FedDrive's splits; ``size`` is that of rendered images."""
    made.add_argument(
        "--distribution",
        action="append",
        type=str.lower,
        choices=distributions,
        help="how clients differ; can be repeated (default: all)",
    )
    made.add_argument("--seed", type=int, default=0, help="of the splits (default: %(default)s)")
    made.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="use the published split files in DIR instead of making splits; they are checked and "
        "copied, and files missing on disk are reported",
    )
    made.add_argument(
        "--synthetic",
        action="store_true",
        help="render street scenes instead of real images (all that the splits need)",
    )
    made.add_argument(
        "--size", type=_size, metavar="WxH", help=f"of rendered images (default: {size})"
    )
    made.add_argument(
        "--limit-per-user",
        type=int,
        metavar="N",
        help="for a quick trial: keep the first N images of each client",
    )
    made.add_argument(
        "--limit-test",
        type=int,
        metavar="M",
        help="for a quick trial: keep the first M test images of each domain and test user",
    )


def add_images(made: argparse.ArgumentParser, source: str) -> None:
    """Add the options that choose and verify labeled images; ``source`` is what it may be."""
    made.add_argument(
        "--source", type=Path, metavar="PATH", help=f"{source} (default: what is in the root)"
    )
    made.add_argument(
        "--download", action="store_true", help="download the official files if they are not there"
    )
    made.add_argument(
        "--unofficial",
        action="store_true",
        help="accept other images than the published ones: a subset, a cleaned version",
    )
    made.add_argument(
        "--shared",
        dest="overlap",
        type=str.lower,
        choices=OVERLAP,
        default=OVERLAP[0],
        help="what to do with images that are in train and in test: refuse them (unless the "
        "official files have them), keep them, or drop them from train (default: %(default)s)",
    )


def add_splits(made: argparse.ArgumentParser, partition: str, clients: int) -> None:
    """Add the options of splits of labeled images, with the default partition and clients."""
    group = made.add_argument_group("splits, written to ROOT/splits")
    group.add_argument(
        "--partition",
        type=str.lower,
        choices=[*PARTITIONS, NO_SPLIT],
        default=partition,
        help="dirichlet: clients of equal size, each with a class mix drawn from Dir(alpha/classes "
        "for each class); alpha 0: one class per client. dirichlet-class: each class is divided by "
        "Dir(alpha), sizes differ. pachinko: superclasses, then classes (CIFAR-100). homogeneous: "
        "all alike. natural: by a column of user ids (default: %(default)s)",
    )
    group.add_argument(
        "--alpha",
        type=float,
        action="extend",
        nargs="+",
        metavar="A",
        help="one split for each (default: those of the configs)",
    )
    group.add_argument(
        "--beta",
        type=float,
        default=PACHINKO["beta"],
        help="pachinko only (default: %(default)g)",
    )
    group.add_argument(
        "--num-clients",
        type=int,
        metavar="K",
        help=f"(default: {clients}; pachinko: {PACHINKO['clients']})",
    )
    group.add_argument("--seed", type=int, default=0, help="of the splits (default: %(default)s)")
    group.add_argument(
        "--users",
        type=Path,
        metavar="CSV",
        help="natural only: the client of each training image, columns user_id and image_id "
        "(default: the users of the .npz file)",
    )
    made.set_defaults(default_clients=clients)


def splits(
    args: argparse.Namespace, alphas: Mapping[str, Sequence[float]]
) -> "list[NamedPartition]":
    """The splits of labeled images that are asked for; ConfigError: a value makes no sense.

    ``alphas`` has the default of each partition that has one, except Pachinko.
    """
    if args.partition == NO_SPLIT:
        return []
    from .image_partitions import named_partitions  # imports torch, --help need not wait for it

    clients = PACHINKO["clients"] if args.partition == "pachinko" else args.default_clients
    return named_partitions(
        args.partition,
        args.alpha or {"pachinko": [PACHINKO["alpha"]], **alphas}.get(args.partition, ()),
        args.users,
        num_clients=clients if args.num_clients is None else args.num_clients,
        beta=args.beta,
        seed=args.seed,
        key="users",
    )


def print_next(experiment: str, usual: Path, root: Path) -> None:
    """Print the command that trains on what was prepared in its usual folder or another."""
    command = f"{cli.program()} train {experiment} --dry-run"
    if root != usual:
        command += f" --cfg-options {shlex.quote(f'data_root={root}')}"
    print(f"Next: {command}")


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = map(int, text.lower().split("x"))
    except ValueError:
        width = height = 0
    if width < SMALLEST or height < SMALLEST:
        raise argparse.ArgumentTypeError(
            f"must be WIDTHxHEIGHT of at least {SMALLEST}, such as 464x256, not {text!r}"
        )
    return width, height
