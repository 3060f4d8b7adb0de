"""CamVid: ``fedseg prepare camvid``."""

import argparse
from pathlib import Path

from .arguments import add_overwrite_argument, add_root_argument, check_exists
from .facts import PairedSet
from .outcome import Outcome, next_command

PURPOSE = "Verify CamVid and write its federated split."
DETAILS = """\
Expected is CamVid as in the SegNet tutorial: train, val and test with images, and trainannot,
valannot and testannot with label ids.

example:
  fedseg prepare camvid --source path/to/CamVid

The split is written to ROOT/splits/{train,test};
split.json next to it has its options."""
FIX = "put CamVid (train, trainannot, val, ...) there, or give --root or --source"
USUAL = Path("data/camvid")

RULE = (
    "clients are contiguous pieces of about 20 images of the recordings 0006R0 and 0016E5, cut "
    "where more than 2 s are missing; seen = the 101 validation frames of 0016E5 and the last 20 "
    "frames of 0006R0; unseen = all of 0001TP and all of Seq05VD"
)
CAMVID = PairedSet(
    name="camvid",
    dataset="CamVidDataset",
    folders={
        "train": {"0001TP": 62, "0006R0": 101, "0016E5": 204},
        "val": {"0016E5": 101},
        "test": {"0001TP": 62, "Seq05VD": 171},
    },
    contents="the 367 + 101 + 233 images of CamVid",
    source="take CamVid as the SegNet tutorial ships it (480x360, label ids in *annot/*.png)",
    published_size=(480, 360),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, str(USUAL))
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="copy CamVid from DIR to the root first"
    )
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None, *, source: Path | None = None, overwrite: bool = False
) -> Outcome:
    """Verify CamVid, after a copy of it where there is a source, and write its split.

    Args:
        root: its folder (default: data/camvid).
        source: the folder to copy it from.
        overwrite: replace images and splits that differ.
    """
    root = root or USUAL
    if source is None:
        check_exists(root, FIX)
    from .paired_images import copy_images, verify
    from .split_folders import PreparedSplit, check_free, print_splits, save
    from .split_rules import build_camvid

    if source is not None and source.resolve() != root.resolve():
        copy_images(CAMVID, source, root, overwrite)
    train, test = build_camvid(verify(CAMVID, root))
    split = PreparedSplit(
        place=(),
        train=train,
        test=test,
        about={"dataset": CAMVID.name, "source": "own rule", "rule": RULE},
    )
    check_free(root, [split], overwrite)
    save(root, split)
    folders = print_splits([split], root)
    return Outcome(root, folders, closing=next_command("camvid", USUAL, root))
