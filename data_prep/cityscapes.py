"""Cityscapes with FedDrive's splits: ``fedseg prepare cityscapes``."""

import argparse
from pathlib import Path

from .arguments import (
    Distributions,
    NonNegativeInt,
    PositiveInt,
    add_feddrive_arguments,
    add_root_argument,
    check_exists,
)
from .outcome import Outcome
from .street_sets import CITYSCAPES

PURPOSE = "Verify or render Cityscapes and write its federated splits."
DETAILS = """\
examples:
  everything, from the real images in data/cityscapes/{leftImg8bit,gtFine}:
    fedseg prepare cityscapes
  published split files:
    fedseg prepare cityscapes --from feddrive/cityscapes
  a small synthetic data set, no download:
    fedseg prepare cityscapes --synthetic --distribution heterogeneous \\
        --limit-per-user 4 --limit-test 10

Each split is written to ROOT/splits/<distribution>/{train,test};
split.json next to it has its options."""
FIX = (
    "put leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip, unpacked, there, or give --root "
    "or --from or --synthetic"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/cityscapes")
    add_feddrive_arguments(parser)


def prepare(
    root: Path | None = None,
    *,
    distribution: Distributions | None = None,
    seed: NonNegativeInt = 0,
    source: Path | None = None,
    synthetic: bool = False,
    size: tuple[int, int] | None = None,
    limit_per_user: PositiveInt | None = None,
    limit_test: PositiveInt | None = None,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Verify or render Cityscapes and write its splits.

    Args:
        root: its folder (default: data/cityscapes).
        distribution: how clients differ: uniform, heterogeneous, class_imbalance (default: all).
        seed: of the splits.
        source: folder of published split files, instead of splits by our rules.
        synthetic: render street scenes instead of using real images.
        size: (width, height) of rendered images in pixels.
        limit_per_user: images that are kept of each client.
        limit_test: images that are kept of each domain and test user.
        unofficial: accept a part of the published images.
        overwrite: replace splits that differ.
    """
    root = root or Path("data/cityscapes")
    if source is None and not synthetic:
        check_exists(root, FIX)
    from .feddrive import prepare_feddrive
    from .split_rules import build_cityscapes

    return prepare_feddrive(
        CITYSCAPES,
        root,
        build_cityscapes,
        distribution=distribution,
        seed=seed,
        source=source,
        synthetic=synthetic,
        size=size,
        limit_per_user=limit_per_user,
        limit_test=limit_test,
        unofficial=unofficial,
        overwrite=overwrite,
    )
