"""MNIST: ``fedseg prepare mnist``."""

import argparse
from functools import partial
from pathlib import Path

from .arguments import (
    PREPARED,
    add_archive_arguments,
    add_overwrite_argument,
    add_root_argument,
    add_source_argument,
    check_exists,
)
from .facts import ImageSet
from .outcome import Outcome

PURPOSE = "Verify MNIST and convert it once."
DETAILS = f"""\
The four idx files ({{train,t10k}}-{{images-idx3,labels-idx1}}-ubyte), unpacked, are expected in
MNIST/raw of data/mnist or of --source.

examples:
  fedseg prepare mnist
  fedseg prepare mnist --download

{PREPARED}"""
FIX = (
    "put its four idx files into MNIST/raw there, or give --root or --source or --download or --npz"
)

MNIST = ImageSet(
    name="MNIST",
    shape=(28, 28, 1),
    classes=tuple("0123456789"),
    dataset="MNISTDataset",
    setting="mnist_a01",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, "data/mnist")
    add_source_argument(parser)
    add_archive_arguments(parser)
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None,
    *,
    source: Path | None = None,
    download: bool = False,
    npz: Path | None = None,
    order: Path | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Write the prepared folder, or verify the one that is there.

    Args:
        root: its folder (default: data/mnist).
        source: folder of the official files (default: the root).
        download: download the official files if they are missing, and unpack them.
        npz: folder of train.npz and test.npz with the images, instead of the official files.
        order: file of the order that the images are put into.
        overwrite: replace files that differ.
    """
    root = root or Path("data/mnist")
    if source is None and npz is None and not download:
        check_exists(root, FIX)
    from .classification import prepare_images
    from .mnist_files import read_mnist

    read = partial(read_mnist, download=download)
    return prepare_images(MNIST, root, read, source, npz, order, overwrite)
