"""MNIST from its four official files, verified here by SHA-256 and read by torchvision."""

from pathlib import Path

import numpy as np
from torchvision import datasets

from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError
from fedseg.files import sha256

from .facts import ImageSet
from .labeled import Labeled, Part

# Of the unpacked files. torchvision knows those of the compressed ones, for a download.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def read_mnist(published: ImageSet, folder: Path, download: bool) -> Labeled:
    """Read the files in ``FOLDER/MNIST/raw``.

    Args:
        download: download and unpack the files unless all of them are there.

    Raises:
        DataError: a file is missing or not the official one, or cannot be downloaded.
    """
    raw = folder / "MNIST" / "raw"
    if download and not all((raw / name).is_file() for name in SHA256):
        try:
            datasets.MNIST(folder, download=True)
        except (RuntimeError, OSError) as error:
            raise DataError(f"{raw}: MNIST cannot be downloaded ({error})") from error
    for name, digest in SHA256.items():
        if not (raw / name).is_file():
            raise DataError(f"{raw / name}: is missing: put it there, unpacked, or give --download")
        if sha256(raw / name) != digest:
            raise DataError(
                f"{raw / name}: must be the official file (SHA-256 {digest}), not another: get it "
                "again"
            )
    parts = {}
    for split in SPLITS:
        digits = datasets.MNIST(folder, train=split == "train")
        images = digits.data.numpy()[..., np.newaxis]
        parts[split] = Part(images, digits.targets.numpy().astype(np.int64))
    return Labeled(parts, "official files, SHA-256 verified")
