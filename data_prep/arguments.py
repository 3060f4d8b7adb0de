"""Arguments of ``fedseg prepare`` that several data sets share. Nothing slow is imported."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import DISTRIBUTIONS, IDDA_SETTINGS

SMALLEST = 32  # side of a rendered street scene, pixels
PositiveInt = Annotated[int, Gt(0)]
NonNegativeInt = Annotated[int, Ge(0)]
Distributions = Sequence[Literal[DISTRIBUTIONS]]
Settings = Sequence[Literal[tuple(IDDA_SETTINGS)]]
PREPARED = """\
The images are stored as arrays in ROOT with a checksum, which the next call verifies. Clients are
drawn by the configs: fedseg splits shows them."""


def add_root_argument(parser: argparse.ArgumentParser, usual: str) -> None:
    """Add ``--root``; ``usual`` is the folder without it."""
    parser.add_argument(
        "--root", type=Path, metavar="ROOT", help=f"the data root (default: {usual})"
    )


def add_member_argument(parser: argparse.ArgumentParser, members: Sequence[str]) -> None:
    """Add ``--dataset``, the choice of one of several data sets; the first is the default."""
    parser.add_argument(
        "--dataset",
        choices=members,
        default=members[0],
        help="which of them (default: %(default)s)",
    )


def add_overwrite_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--overwrite``."""
    parser.add_argument(
        "--overwrite", action="store_true", help="replace existing files that differ"
    )


def add_source_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--source``, the folder of the official files."""
    parser.add_argument(
        "--source",
        type=Path,
        metavar="DIR",
        help="folder of the official files (default: the root)",
    )


def add_archive_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sources of CIFAR and MNIST besides ``--source``, and the order of their images."""
    parser.add_argument(
        "--download",
        action="store_true",
        help="download the official files if they are missing, and unpack them",
    )
    parser.add_argument(
        "--npz",
        type=Path,
        metavar="DIR",
        help="take the images from train.npz and test.npz in DIR, which have images (uint8 "
        "[N, H, W, C]), labels (integers [N]) and classes (the published names, in order); "
        "results say that these are not the official files",
    )
    parser.add_argument(
        "--order",
        type=Path,
        metavar="FILE",
        help="put the images into the order of FILE, so that indices of clients mean the same "
        "images whatever the source (docs/runs/clients has that of the published runs)",
    )


def add_feddrive_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of FedDrive's splits and of the images, for Cityscapes and IDDA."""
    parser.add_argument(
        "--distribution",
        action="extend",
        nargs="+",
        choices=DISTRIBUTIONS,
        help="how clients differ (default: all)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the splits; rendered images do not depend on it (default: %(default)s)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="use the published split files in DIR instead of creating splits; they are checked "
        "and copied, and missing images are reported",
    )
    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="render street scenes instead of using real images",
    )
    parser.add_argument(
        "--size",
        type=_read_size,
        metavar="WxH",
        help="of rendered images (default: idda 464x256, cityscapes 512x256)",
    )
    parser.add_argument(
        "--limit-per-user",
        type=int,
        metavar="N",
        help="for a quick trial: keep the first N images of each client",
    )
    parser.add_argument(
        "--limit-test",
        type=int,
        metavar="M",
        help="for a quick trial: keep the first M test images of each domain and test user",
    )
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="accept a part of the published images, for a trial: the splits are made of what is "
        "there",
    )
    add_overwrite_argument(parser)


def _read_size(text: str) -> tuple[int, int]:
    """Read WIDTHxHEIGHT in pixels."""
    try:
        width, height = map(int, text.lower().split("x"))
    except ValueError:
        width = height = 0
    if width < SMALLEST or height < SMALLEST:
        raise argparse.ArgumentTypeError(
            f"must be WIDTHxHEIGHT of at least {SMALLEST}, such as 464x256, not {text!r}"
        )
    return width, height


def check_exists(root: Path, fix: str) -> None:
    """Raise DataError with the fix if a data root is not there."""
    cli.check_there([root], fix)


def check_folder(root: Path) -> None:
    """Raise ConfigError unless a data root is a folder, or free to become one."""
    if len(str(root).splitlines()) > 1:
        raise ConfigError(f"{str(root)!r}: has a line break: rename the folder")
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root}: is a file: name a folder")
