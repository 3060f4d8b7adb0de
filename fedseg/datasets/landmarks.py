"""Landmarks-User-160k: photographs of landmarks by the people who took them, images on disk."""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.photos import PhotoDataset, rows_checksum
from fedseg.errors import DataError
from fedseg.names import PREPARED_BY
from fedseg.registry import DATASETS

SPLITS = ("train", "test")
IMAGES = "images"  # folder of the images in the data root
SUFFIX = ".jpg"
TOOL = PREPARED_BY["LandmarksDataset"]
# An id becomes a file name and three folder names, so nothing but these characters may be in it.
IMAGE_ID = re.compile(r"[0-9A-Za-z_-]{3,64}")

# File names of the published splits: the 160k images of Hsu et al. (2020), and the 23k images that
# TensorFlow Federated calls gld23k.
ANNOTATIONS = {
    "train": ("federated_train.csv", "mini_gld_train_split.csv"),
    "test": ("test.csv", "mini_gld_test.csv"),
}


@dataclass(frozen=True)
class Photo:
    """One row of an annotation file."""

    image: str  # its id
    label: int  # its class, from 0
    user: str | None = None  # who took it; None in a test file


@DATASETS.register_module()
class LandmarksDataset(PhotoDataset):
    """Landmarks-User-160k (Hsu et al., ECCV 2020), a part of Google Landmarks v2.

    164,172 training images of 1,262 users, 19,526 test images, 2,028 classes.

    Args:
        data_root: the folder with the published split files, ``federated_train.csv`` and
            ``test.csv`` (160k) or ``mini_gld_train_split.csv`` and ``mini_gld_test.csv`` (23k), and
            with the images as in the archives, ``images/a/b/c/abc0123456789def.jpg``.
        split: which images.
        num_classes: 2028; the 23k images have 203.
        pipeline: transforms of albumentations, as in
            :class:`~fedseg.datasets.segmentation.SegmentationDataset`. None: for ``train`` a random
            crop resized to 224x224 and a horizontal flip, for ``test`` the shorter side resized to
            256 and the central 224x224.

    Attributes:
        users: per sample, the user that holds it; None for ``test``.
        metainfo: ``classes``, the class numbers as text: names were not published.
        split_checksum: SHA-256 of users, images and classes.
    """

    tool = TOOL

    def __init__(
        self,
        data_root: str | Path,
        split: Literal["train", "test"] = "train",
        num_classes: PositiveInt = 2028,
        pipeline: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(data_root, split, pipeline)
        annotations = find_annotations(Path(data_root), split)
        images = Path(data_root, IMAGES)
        self.metainfo = {"classes": tuple(str(i) for i in range(num_classes))}
        photos = read_annotations(annotations, split == "train", num_classes)
        self.users = [photo.user for photo in photos] if split == "train" else None
        self.labels = np.array([photo.label for photo in photos], np.int64)
        paths = find_images(images, [photo.image for photo in photos])
        missing = [p.image for p, path in zip(photos, paths, strict=True) if path is None]
        if missing:
            raise DataError(
                f"{images}: {len(missing)} of {len(photos)} images of {annotations} are missing, "
                f"such as {', '.join(missing[:5])}: check the data set with {TOOL}"
            )
        self.files = [(path,) for path in paths]
        rows = [[photo.user, photo.image, photo.label] for photo in photos]
        self.split_checksum = rows_checksum(rows, separators=(",", ":"))


def find_annotations(root: Path, split: str) -> Path:
    """The annotation file of a split below a root, by the names under which it was published."""
    present = [root / name for name in ANNOTATIONS[split] if (root / name).is_file()]
    if not present:
        raise DataError(
            f"{root / ANNOTATIONS[split][0]}: does not exist: download the published split files "
            f"(see {TOOL})"
        )
    if len(present) > 1:
        raise DataError(
            f"{root}: must have {present[0].name} (160k images) or {present[1].name} (23k), not "
            "both: move one away"
        )
    return present[0]


def read_annotations(path: Path, with_users: bool, num_classes: int) -> list[Photo]:
    """Read the rows of an annotation file; ``with_users``: it has a column ``user_id``.

    DataError for a missing column, or a row with an id, class or user that cannot be.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error}): get it again") from error
    photos: dict[str, Photo] = {}
    for line, row in enumerate(rows, start=2):
        photo = _read_row(f"{path}, line {line}", row, with_users, num_classes)
        if photo.image in photos:
            raise DataError(f"{path}, line {line}: image {photo.image} is listed twice: remove one")
        photos[photo.image] = photo
    if not photos:
        raise DataError(f"{path}: lists no image: get it again")
    return list(photos.values())


def _read_row(
    where: str, row: Mapping[str, str | None], with_users: bool, num_classes: int
) -> Photo:
    """Check one row; ``where`` names it in messages."""
    image = row.get("image_id")
    label = row.get("class")
    user = row.get("user_id")
    if not IMAGE_ID.fullmatch(image or ""):
        raise DataError(
            f"{where}: image_id must be letters, digits, '-' and '_', not {image!r}: get the file "
            "again"
        )
    if not re.fullmatch("[0-9]{1,9}", label or "") or int(label) >= num_classes:
        raise DataError(
            f"{where}: class must be 0 to dataset.num_classes - 1 = {num_classes - 1}, not "
            f"{label!r}: get the file again"
        )
    if not with_users:
        return Photo(image, int(label))
    if not user:
        raise DataError(f"{where}: image {image} has no user_id: get the file again")
    return Photo(image, int(label), user)


def find_images(root: Path, ids: Sequence[str]) -> list[str | None]:
    """Find the path of each image below a root, ``a/b/c/abc0123456789def.jpg``, or None."""
    paths = [os.path.join(root, *image[:3], image + SUFFIX) for image in ids]
    present = existing_files(paths)
    return [path if path in present else None for path in paths]
