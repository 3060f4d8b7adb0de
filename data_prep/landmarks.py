"""Landmarks-User-160k: ``fedseg prepare landmarks``."""

import argparse
from pathlib import Path

from fedseg.names import LANDMARKS_SOURCES

from .arguments import add_root_argument, check_exists
from .facts import Selection
from .outcome import Outcome

PURPOSE = "Verify Landmarks-User-160k: split files and images."
DETAILS = f"""\
Expected below the root: federated_train.csv and test.csv (or mini_gld_train_split.csv and
mini_gld_test.csv, the 23k images of gld23k), and images/a/b/c/abc0123456789def.jpg.
{LANDMARKS_SOURCES}.

example:
  fedseg prepare landmarks --missing missing.txt

Nothing is converted. A chart of the clients goes to ROOT/splits/natural_users.png."""
FIX = "put its split files and images there, or give --root"

LANDMARKS = {  # by the name of the training file
    "federated_train.csv": Selection(
        name="Landmarks-User-160k",
        users=1262,
        train=164172,
        test=19526,
        classes=2028,
    ),
    "mini_gld_train_split.csv": Selection(
        name="gld23k",
        users=233,
        train=23080,
        test=None,
        classes=203,
        md5={
            "train": "9fd62cf79a67046fdd673d3a0ac52841",
            "test": "298e9d19d66357236f66fe8e22920933",
        },
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/landmarks")
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="accept other numbers of users, images and classes than the published ones",
    )
    parser.add_argument(
        "--missing",
        type=Path,
        metavar="FILE",
        help="write the names of missing images to FILE, one per line",
    )


def prepare(
    root: Path | None = None, *, unofficial: bool = False, missing: Path | None = None
) -> Outcome:
    """Verify annotations and that every image exists.

    Args:
        root: its folder (default: data/landmarks).
        unofficial: accept other numbers than the published ones.
        missing: file that the names of missing images are written to.
    """
    root = root or Path("data/landmarks")
    check_exists(root, FIX)
    from .landmarks_files import verify_landmarks

    return verify_landmarks({} if unofficial else LANDMARKS, root, missing)
