"""Images in an order of their own, whatever the order of their source.

Clients are lists of indices of images, and sources differ in the order of the same images. A file
of an order (``.npz``) has two arrays, ``train`` and ``test``, uint64 [N]: the digest of each
image's pixels, in the order.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedseg.datasets.arrays import DAMAGED, SPLITS
from fedseg.errors import DataError

from .labeled import Labeled, Part

DIGEST = 8  # bytes of an image's SHA-256


def digests(images: Any) -> np.ndarray:
    """Compute the digest of each image, uint8 [N, H, W, C]: uint64 [N]."""
    values = [hashlib.sha256(image.tobytes()).digest()[:DIGEST] for image in images]
    return np.array([int.from_bytes(value, "big") for value in values], np.uint64)


def write_order(file: Path, images: Mapping[str, Any]) -> None:
    """Write the order of prepared images.

    Args:
        file: ``.npz``.
        images: ``train`` and ``test``, uint8 [N, H, W, C].
    """
    np.savez(file, **{split: digests(images[split]) for split in SPLITS})


def in_order(data: Labeled, file: Path) -> Labeled:
    """Put the images into the order of a file; DataError unless it is one of the same images."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            order = {split: arrays[split] for split in SPLITS}
    except (*DAMAGED, KeyError, BadZipFile) as error:
        raise DataError(f"--order: {file}: is no file of an order: {error}") from error
    parts = {}
    for split in SPLITS:
        part = data.parts[split]
        present = digests(part.images)
        by_digest = np.argsort(present)
        if not np.array_equal(present[by_digest], np.unique(order[split])):
            raise DataError(f"--order: {file}: is of other {split} images: leave it out")
        places = by_digest[np.searchsorted(present[by_digest], order[split])]
        parts[split] = Part(part.images[places], part.labels[places])
    return replace(data, parts=parts, source=f"{data.source}, in the order of {file.name}")
