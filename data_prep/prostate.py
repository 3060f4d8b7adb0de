"""Prostate MRI of six sites: ``fedseg prepare prostate``."""

import argparse
from pathlib import Path

from .arguments import add_overwrite_argument, add_root_argument, check_exists
from .outcome import Outcome

PURPOSE = "Cut MRI volumes of the prostate into slices, and write a split by patient."
DETAILS = """\
Expected in DIR or the root: RUNMC, BMC, I2CVB, UCL, BIDMC and HK with CaseNN.nii.gz and
CaseNN_segmentation.nii.gz. Needs nibabel (pip install 'fedseg[nifti]').

example:
  fedseg prepare prostate --source path/to/volumes

Slices with prostate are written to ROOT/slices, the split to ROOT/splits/{train,test}."""
FIX = "put the folders of the six sites there, or give --root or --source"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/prostate")
    parser.add_argument(
        "--source",
        type=Path,
        metavar="DIR",
        help="folder with the volumes, <site>/CaseNN.nii.gz (default: the root)",
    )
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="accept another number of volumes than the published one",
    )
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None,
    *,
    source: Path | None = None,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Write the slices of all volumes, and a split in which a patient is in one part.

    Args:
        root: folder of the slices (default: data/prostate).
        source: folder of the volumes (default: the root).
        unofficial: accept another number of volumes than the published one.
        overwrite: replace a split that differs.
    """
    root = root or Path("data/prostate")
    if source is None:
        check_exists(root, FIX)
    from .prostate_volumes import prepare_volumes

    return prepare_volumes(root, source or root, unofficial, overwrite)
