"""Landmarks-User-160k: photographs of landmarks by the people who took them, images on disk."""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.photos import PhotoDataset, rows_checksum
from fedseg.errors import ConfigError, DataError
from fedseg.names import PREPARED_BY
from fedseg.registry import DATASETS

SPLITS = ("train", "test")
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
        data_root: the folder with annotation files and images.
        split: which images.
        annotations: the CSV file, relative to ``data_root`` or absolute: columns ``user_id`` (train
            only), ``image_id``, ``class``. None looks for ``federated_train.csv`` and ``test.csv``
            (160k), or ``mini_gld_train_split.csv`` and ``mini_gld_test.csv`` (23k).
        image_root: the folder with the images, relative to ``data_root`` or absolute. An image is
            ``<id>.jpg`` in it, or below folders of the first three characters:
            ``a/b/c/abc0123456789def.jpg``.
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
        annotations: str | Path | None = None,
        image_root: str | Path = "images",
        num_classes: PositiveInt = 2028,
        pipeline: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(data_root, split, pipeline)
        root = Path(self.data_root)
        self.annotations = (
            find_annotations(root, split) if annotations is None else root / annotations
        )
        self.image_root = root / image_root
        self.metainfo = {"classes": tuple(str(i) for i in range(num_classes))}
        photos = read_annotations(self.annotations, split == "train", num_classes)
        self.users = [photo.user for photo in photos] if split == "train" else None
        self.labels = np.array([photo.label for photo in photos], np.int64)
        paths = find_images(self.image_root, [photo.image for photo in photos])
        missing = [p.image for p, path in zip(photos, paths, strict=True) if path is None]
        if missing:
            raise DataError(
                f"{self.image_root}: {len(missing)} of {len(photos)} images of {self.annotations} "
                f"are missing, such as {', '.join(missing[:5])}: check the data set with {TOOL}"
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
            f"(see {TOOL}), or set dataset.annotations"
        )
    if len(present) > 1:
        raise ConfigError(
            f"dataset.annotations: {root} has {present[0].name} (160k images) and "
            f"{present[1].name} (23k): set one"
        )
    return present[0]


def read_annotations(path: Path, with_users: bool, num_classes: int) -> list[Photo]:
    """The rows of an annotation file; ``with_users``: it has a column ``user_id``."""
    columns = ["user_id"] * with_users + ["image_id", "class"]
    photos: dict[str, Photo] = {}
    for line, row in read_rows(path, columns):
        where = f"{path}, line {line}"
        image, label, user = row["image_id"], row["class"], row.get("user_id") or None
        if not IMAGE_ID.fullmatch(image or ""):
            raise DataError(
                f"{where}: {image!r} is not an image id (letters, digits, '-' and '_'): "
                "correct the row"
            )
        if image in photos:
            raise DataError(f"{where}: image {image} is listed twice: remove one")
        if not re.fullmatch("[0-9]{1,9}", label or "") or int(label) >= num_classes:
            raise DataError(
                f"{where}: unknown class {label!r}: classes are 0 to dataset.num_classes - 1 = "
                f"{num_classes - 1}"
            )
        if with_users and user is None:
            raise DataError(f"{where}: image {image} has no user_id: correct the row")
        photos[image] = Photo(image, int(label), user if with_users else None)
    if not photos:
        raise DataError(f"{path}: lists no image: get it again")
    return list(photos.values())


def read_rows(
    path: Path, required: Sequence[str], optional: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Line number and cells of each row of a CSV file with a header.

    Args:
        required: columns that it must have.
        optional: those that it may have; None: any.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
        rows.fieldnames = names = [name.strip() for name in rows.fieldnames or ()]
        for name in required:
            if name not in names:
                raise DataError(f"{path}: has no column {name!r} in its first line: add it")
        for name in filter(None, names):
            if optional is not None and name not in (*required, *optional):
                known = ", ".join((*required, *optional))
                raise DataError(f"{path}: has a column {name!r}, none of {known}: rename it")
            if names.count(name) > 1:
                raise DataError(f"{path}: has two columns {name!r}: remove one")
        for row in rows:
            yield rows.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error}): get it again") from error


def find_images(root: Path, ids: Sequence[str]) -> list[str | None]:
    """The path of each image below a root, or None; see ``image_root`` of the data set."""
    names = [image + SUFFIX for image in ids]
    flat = [os.path.join(root, name) for name in names]
    nested = [os.path.join(root, *name[:3], name) for name in names]
    present = existing_files([*flat, *nested])
    return [
        next((p for p in pair if p in present), None) for pair in zip(flat, nested, strict=True)
    ]
