"""Images in an order of their own, whatever the order of their source.

Clients are lists of indices of images, and sources differ in the order of the same images: an
archive has the published one, folders are read class by class. A file of an order (``.npz``) has
two arrays, ``train`` and ``test``, uint64 [N]: the digest of each image's pixels, in the order.
"""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError

from .description import Labeled, Part

DIGEST = 8  # bytes of an image's SHA-256


def digests(images: Any) -> np.ndarray:
    """The digest of each image, uint8 [N, H, W, C]: uint64 [N]."""
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
    """Put the images into the order of a file.

    Raises:
        DataError: the file is none of an order, or one of other images.
    """
    order = _read_order(file)
    parts = {}
    for split in SPLITS:
        part, wanted = data.parts[split], order[split]
        present = digests(part.images)
        by_digest = np.argsort(present)
        if len(np.unique(wanted)) != len(wanted) or not np.array_equal(
            present[by_digest], np.sort(wanted)
        ):
            raise DataError(f"--order: {file}: is of other {split} images: leave it out")
        places = by_digest[np.searchsorted(present[by_digest], wanted)]
        parts[split] = Part(
            part.images[places],
            part.labels[places],
            users=_at(places, part.users),
            names=_at(places, part.names),
        )
    return replace(data, parts=parts, source=f"{data.source}, in the order of {file.name}")


def _at(places: np.ndarray, values: Sequence[str] | None) -> list[str] | None:
    """The values at some places, if there are any."""
    if values is None:
        return None
    return [values[place] for place in places]


def _read_order(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            order = {split: arrays[split] for split in SPLITS}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"--order: {file}: is no file of an order: {error}") from error
    for split, values in order.items():
        if values.dtype != np.uint64 or values.ndim != 1:
            raise DataError(f"--order: {file}: {split} must be uint64 [N]")
    return order
