"""CIFAR-10 and CIFAR-100 from their official files, which torchvision verifies by md5 and reads.

The files are pickles, and a pickle may run anything: none is opened that is not the official one.
"""

import pickle
from pathlib import Path

import numpy as np
from torchvision import datasets

from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError

from .facts import ImageSet
from .labeled import Labeled, Part

VERIFIED = "official batches, md5 verified"  # the source of images in the archive's order


def read_cifar(published: ImageSet, folder: Path, download: bool) -> Labeled:
    """Read the batches below a folder, such as ``FOLDER/cifar-10-batches-py``.

    Args:
        download: download and unpack the archive, which is not downloaded again if it is there.

    Raises:
        DataError: a file is missing or not the official one, or cannot be downloaded.
    """
    kind = getattr(datasets, published.name)
    parts = {}
    for split in SPLITS:
        try:
            batches = kind(folder, train=split == "train", download=download)
        except (RuntimeError, OSError) as error:
            raise DataError(
                f"{folder}: must have the official {published.name} in {kind.base_folder} "
                f"({' '.join(str(error).split())}): put {kind.filename} there and give --download, "
                "which unpacks it, or downloads it if it is missing"
            ) from error
        parts[split] = Part(batches.data, np.array(batches.targets, np.int64))
    return Labeled(parts, VERIFIED)


def read_archive_names(published: ImageSet, folder: Path) -> dict[str, list[str]]:
    """Read the names that the archive gives its images, by split, in its order."""
    kind = getattr(datasets, published.name)
    read_cifar(published, folder, download=False)  # verifies the files
    names: dict[str, list[str]] = {}
    for split, batches in zip(SPLITS, (kind.train_list, kind.test_list), strict=True):
        names[split] = []
        for batch, _ in batches:
            content = pickle.loads(
                (folder / kind.base_folder / batch).read_bytes(), encoding="latin1"
            )
            names[split] += content["filenames"]
    return names
