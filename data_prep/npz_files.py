"""Labeled images from ``train.npz`` and ``test.npz``, where the official files are not at hand."""

from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from fedseg.datasets.arrays import DAMAGED, SPLITS, check_images
from fedseg.errors import DataError

from .facts import ImageSet
from .labeled import Labeled, Part


def read_npz(published: ImageSet, folder: Path) -> Labeled:
    """Read both files: ``images`` uint8 [N, H, W, C], ``labels`` integers [N], ``classes`` texts.

    DataError unless shape and classes are the published data set's; images are not compared.
    """
    parts = {}
    for split in SPLITS:
        path = folder / f"{split}.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                images = file["images"]
                labels = file["labels"]
                classes = file["classes"]
        except (*DAMAGED, KeyError, BadZipFile, ZlibError) as error:
            raise DataError(
                f"{path}: must have the arrays images, labels and classes ({error}): write it "
                "again with numpy.savez"
            ) from error
        if tuple(classes) != published.classes:
            raise DataError(f"{path}: classes must be {list(published.classes)}, not {classes}")
        check_images(images, labels, len(classes), path)
        if images.shape[1:] != published.shape:
            shapes = f"{list(published.shape)}, not {list(images.shape[1:])}"
            raise DataError(f"{path}: images must have shape {shapes}")
        parts[split] = Part(images, labels.astype(np.int64))
    return Labeled(parts, ".npz files", unofficial=True)
