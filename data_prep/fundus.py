"""Fundus photographs of four sites: ``fedseg prepare fundus``."""

import argparse
from dataclasses import replace
from pathlib import Path

from fedseg.errors import ConfigError

from .arguments import PositiveInt, add_overwrite_argument, add_root_argument, check_exists
from .outcome import Outcome, next_command

PURPOSE = "Check or draw fundus photographs of four sites, and write their split."
DETAILS = """\
Expected below the root: Domain1 to Domain4 with {train,test}/ROIs/{image,mask}/<name>.png. A client
is a site.

examples:
  the real photographs in data/fundus:
    fedseg prepare fundus
  drawn ones, no download:
    fedseg prepare fundus --root data/demo_fundus --synthetic

The split is written to ROOT/splits/{train,test}."""
FIX = "put Domain1 to Domain4 there, or give --root or --synthetic"
DEMO = Path("data/demo_fundus")
DRAWN_SIZE = 128  # height and width of drawn photographs, pixels


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/fundus")
    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="draw photographs as four cameras would show them instead of using real ones",
    )
    parser.add_argument(
        "--size",
        type=int,
        metavar="N",
        help=f"height and width of drawn photographs, pixels (default: {DRAWN_SIZE})",
    )
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="accept another number of photographs than the published one",
    )
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None,
    *,
    synthetic: bool = False,
    size: PositiveInt | None = None,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Write the split of photographs that are there, or of drawn ones.

    Args:
        root: their folder (default: data/fundus).
        synthetic: draw photographs as four cameras would show them.
        size: height and width of drawn photographs, pixels (default: 128).
        unofficial: accept another number of photographs than the published one.
        overwrite: replace a split that differs.
    """
    root = root or Path("data/fundus")
    if size is not None and not synthetic:
        raise ConfigError("--size: is the size of drawn photographs, it needs --synthetic")
    if not synthetic:
        check_exists(root, FIX)
    from fedseg.datasets.arrays import is_synthetic

    from .folders import prepare_published
    from .layout_splits import SplitRule
    from .synthetic_fundus import draw_sites

    if synthetic:
        draw_sites(root, size or DRAWN_SIZE)
    drawn = is_synthetic(root)
    outcome = prepare_published("fundus", root, SplitRule(), unofficial or drawn, overwrite)
    if drawn:
        return replace(outcome, closing=next_command("demo_fundus", DEMO, root))
    return outcome
