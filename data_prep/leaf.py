"""FEMNIST and Shakespeare of LEAF: ``fedseg prepare leaf``."""

import argparse
from pathlib import Path
from typing import Literal

from .arguments import (
    PREPARED,
    add_member_argument,
    add_overwrite_argument,
    add_root_argument,
    add_source_argument,
    check_exists,
)
from .facts import ImageSet
from .outcome import Outcome

PURPOSE = "Convert FEMNIST or Shakespeare once; a client is a writer or a role."
DETAILS = f"""\
Expected in the root or in --source: of FEMNIST TensorFlow Federated's fed_emnist_train.h5 and
fed_emnist_test.h5 (pip install 'fedseg[hdf5]'); of Shakespeare train/*.json and test/*.json, as
LEAF's preprocess.sh writes them below data/. There is no published checksum: counts are printed,
not compared.

examples:
  fedseg prepare femnist --source DIR
  fedseg prepare shakespeare --source leaf/data/shakespeare/data

{PREPARED}"""
FIX = "put its files there, or give --root or --source"

FEMNIST = ImageSet(
    name="FEMNIST",
    shape=(28, 28, 1),
    classes=tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    dataset="FEMNISTDataset",
    setting="femnist",
)
SHAKESPEARE = ImageSet(
    name="Shakespeare",
    shape=(80, 1, 1),  # a sequence is an image of one column
    classes=tuple(
        "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
    ),
    dataset="ShakespeareDataset",
    setting="shakespeare",
)
MEMBERS = {
    "femnist": FEMNIST,
    "shakespeare": SHAKESPEARE,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/DATASET")
    add_member_argument(parser, [*MEMBERS])
    add_source_argument(parser)
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None,
    *,
    dataset: Literal["femnist", "shakespeare"] = "femnist",
    source: Path | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Write the prepared folder, or verify the one that is there.

    Args:
        root: its folder (default: data/femnist, data/shakespeare).
        dataset: which of them.
        source: folder of the official files (default: the root).
        overwrite: replace files that differ.
    """
    root = root or Path("data", dataset)
    if source is None:
        check_exists(root, FIX)
    from .classification import prepare_images
    from .femnist_files import read_femnist
    from .shakespeare_files import read_shakespeare

    readers = {
        "femnist": read_femnist,
        "shakespeare": read_shakespeare,
    }
    return prepare_images(
        MEMBERS[dataset], root, readers[dataset], source=source, overwrite=overwrite
    )
