"""IDDA with FedDrive's splits: ``fedseg prepare idda``."""

import argparse
from pathlib import Path

from fedseg.names import IDDA_SETTINGS

from .arguments import (
    Distributions,
    NonNegativeInt,
    PositiveInt,
    Settings,
    add_feddrive_arguments,
    add_root_argument,
    check_exists,
)
from .outcome import Outcome
from .street_sets import IDDA

PURPOSE = "Verify or render IDDA and write its federated splits."
DETAILS = """\
examples:
  everything, from the real images in data/idda/IDDAsmall:
    fedseg prepare idda
  published split files:
    fedseg prepare idda --from feddrive/idda
  a small synthetic data set, no download:
    fedseg prepare idda --synthetic --setting rainy --distribution heterogeneous \\
        --limit-per-user 8 --limit-test 2

Each split is written to ROOT/splits/<distribution>/<setting>/{train,test};
split.json next to it has its options."""
FIX = "put IDDA (IDDAsmall/<domain>/{RGB,Semantic}) there, or give --root or --from or --synthetic"
DEMO = Path("data/demo_weather")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/idda")
    add_feddrive_arguments(parser)
    parser.add_argument(
        "--setting",
        action="extend",
        nargs="+",
        choices=IDDA_SETTINGS,
        help="which domains are unseen: T07 (country), hard rain (rainy), viewpoint B (bus) "
        "(default: all)",
    )


def prepare(
    root: Path | None = None,
    *,
    distribution: Distributions | None = None,
    setting: Settings | None = None,
    seed: NonNegativeInt = 0,
    source: Path | None = None,
    synthetic: bool = False,
    size: tuple[int, int] | None = None,
    limit_per_user: PositiveInt | None = None,
    limit_test: PositiveInt | None = None,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Verify or render IDDA and write its splits.

    Args:
        root: its folder (default: data/idda).
        distribution: how clients differ: uniform, heterogeneous, class_imbalance (default: all).
        setting: which domains are unseen: country, rainy, bus (default: all).
        seed: of the splits.
        source: folder of published split files, instead of splits by our rules.
        synthetic: render street scenes instead of using real images.
        size: (width, height) of rendered images in pixels.
        limit_per_user: images that are kept of each client.
        limit_test: images that are kept of each domain and test user.
        unofficial: accept a part of the published images.
        overwrite: replace splits that differ.
    """
    root = root or Path("data/idda")
    if source is None and not synthetic:
        check_exists(root, FIX)
    from .feddrive import prepare_feddrive
    from .split_rules import build_idda

    return prepare_feddrive(
        IDDA,
        root,
        build_idda,
        distribution=distribution,
        setting=setting,
        seed=seed,
        source=source,
        synthetic=synthetic,
        size=size,
        limit_per_user=limit_per_user,
        limit_test=limit_test,
        unofficial=unofficial,
        overwrite=overwrite,
    )


def prepare_demo_streets(root: Path = DEMO, size: tuple[int, int] = (232, 128)) -> None:
    """Render streets for the demos, in a folder of their own: the rainy setting, few images.

    Args:
        size: width and height in pixels.
    """
    prepare(
        root,
        distribution=["heterogeneous"],
        setting=["rainy"],
        synthetic=True,
        size=size,
        limit_per_user=8,
        limit_test=1,  # of each of the 69 seen and 35 unseen domains
        overwrite=True,  # of splits: the folder is the demo's own
    )
