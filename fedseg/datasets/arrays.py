"""Labeled small images as arrays in memory, from a prepared folder.

A prepared folder holds, for each of ``train`` and ``test``, ``<split>_images.npy`` (uint8
[N, H, W, C]) and ``<split>_labels.npy`` (int64 [N]), beside ``dataset.json`` with the class names,
the number and shape of the images and a checksum.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval, Len, MinLen
from pydantic import BaseModel, NonNegativeInt, field_validator
from torch.utils.data import Dataset

from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import DataError, MissingDataError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.names import CONTROL, PREPARED_BY, made_by
from fedseg.registry import DATASETS

# What numpy.load raises for a damaged file: its header is parsed as Python.
DAMAGED = (OSError, EOFError, ValueError, SyntaxError, TokenError, MemoryError)
SPLITS = ("train", "test")
INDEX = "dataset.json"
USERS = "train_users.npy"


Count = Annotated[int, Interval(gt=0, lt=2**31)]


class SplitIndex(BaseModel):
    """Of the images of a split: their number, shape [H, W, C] and checksum."""

    model_config = STRICT
    images: Count
    shape: Annotated[list[Count], Len(3, 3)]
    sha256: str


class Origin(BaseModel):
    """The part of ``dataset.json`` that every data set has."""

    model_config = STRICT
    synthetic: bool | None = None


class FolderIndex(Origin):
    """The content of ``dataset.json`` beside images as arrays."""

    classes: Annotated[list[Annotated[str, MinLen(1)]], MinLen(1)]
    splits: Annotated[dict[Literal[SPLITS], SplitIndex], MinLen(2)]
    unofficial: bool = False
    coarse_labels: list[int] | None = None
    dataset: str | None = None
    source: str | None = None
    shared_images: NonNegativeInt | None = None

    @field_validator("classes")
    @classmethod
    def _require_distinct(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError("a name occurs twice")
        # a name of one character may be any: texts have "\n"
        if any(len(name) > 1 and CONTROL.search(name) for name in names):
            raise ValueError("a name has control characters")
        return names


class ImageArrays(Dataset):
    """Labeled images of one size.

    ``dataset[i]`` is ``dict(inputs=uint8 [C, H, W], data_samples=int64 [])``.

    Args:
        images: uint8 [N, H, W, C].
        labels: integers [N], from 0 to the number of classes - 1.
        classes: class names.
        coarse_labels: the superclass of each class, integers [classes] (CIFAR-100).
        users: the client id of each image, for a natural partition.
        where: what messages call the images; a file or folder.
    """

    domains: list[str] | None = None
    data_root: str | None = None
    unofficial = False  # whether the images were prepared from other files than the published ones

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        classes: Sequence[str],
        coarse_labels: Sequence[int] | None = None,
        users: Sequence[str] | None = None,
        where: str | Path = "images",
    ) -> None:
        check_images(images, labels, len(classes), where)
        self.images = images
        self.labels = np.asarray(labels).astype(np.int64)
        self.metainfo = {"classes": tuple(classes)}
        self.coarse_labels = None
        if coarse_labels is not None:
            coarse = np.asarray(coarse_labels)
            if coarse.shape != (len(classes),) or coarse.dtype.kind not in "iu" or coarse.min() < 0:
                raise DataError(f"{where}: coarse_labels must be an integer >= 0 for each class")
            self.coarse_labels = coarse.astype(np.int64)
        self.users = None if users is None else [str(user) for user in users]
        if self.users is not None and len(self.users) != len(images):
            raise DataError(f"{where}: {len(self.users)} users for {len(images)} images")

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names."""
        return self.metainfo["classes"]

    @cached_property
    def split_checksum(self) -> str:
        """SHA-256 of images and labels."""
        return images_checksum(self.images, self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [n, H, W, C] and labels int64 [n] of some samples, as contiguous arrays."""
        return np.ascontiguousarray(self.images[indices]), self.labels[indices]

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        image = torch.from_numpy(np.array(self.images[index])).permute(2, 0, 1).contiguous()
        return {"inputs": image, "data_samples": torch.tensor(int(self.labels[index]))}


class PreparedFolder(ImageArrays):
    """Base of images in a prepared folder.

    Attributes:
        tool: what makes the folder, for messages.
        shape, num_classes: what the data set must have; None: anything.
    """

    tool = "fedseg prepare cifar"
    shape: tuple[int, int, int] | None = None
    num_classes: int | None = None

    def __init_subclass__(cls) -> None:
        cls.tool = PREPARED_BY.get(cls.__name__, cls.tool)

    def _read_index(self, root: Path) -> dict[str, Any]:
        """The folder's ``dataset.json``, checked against ``shape`` and ``num_classes``."""
        path = root / INDEX
        if not path.is_file():
            how = made_by(self.tool, root)
            raise MissingDataError(f"{path}: is missing: make it with {how}, or set data_root")
        index = read_index(path)
        for split in SPLITS:
            self._require(path, split, tuple(index["splits"][split]["shape"]), self.shape)
        self._require(path, "classes", len(index["classes"]), self.num_classes)
        return index

    def _require(self, path: Path, field: str, value: Any, expected: Any) -> None:
        """Raise DataError unless a value of the index is what this data set has."""
        if expected is not None and value != expected:
            raise DataError(
                f"{path}: {field}: {value}, but {type(self).__name__} has {expected}: use another "
                "dataset.type or dataset.data_root"
            )


@DATASETS.register_module()
class StoredImages(PreparedFolder):
    """Images of a prepared folder, read into memory.

    Args:
        data_root: the folder; a tool ``fedseg prepare`` writes it.
        split: which images.
    """

    def __init__(self, data_root: str | Path, split: Literal["train", "test"] = "train") -> None:
        root = Path(data_root)
        index = self._read_index(root)
        entry = index["splits"][split]
        fix = f"prepare them again with {made_by(self.tool, root)}"
        if self.tool.startswith("fedseg prepare "):
            fix += " --overwrite"
        path = root / f"{split}_images.npy"
        images, labels = load_array(path, fix), load_array(root / f"{split}_labels.npy", fix)
        expected = [entry["images"], *entry["shape"]]
        if list(images.shape) != expected:
            raise DataError(
                f"{path}: has shape {list(images.shape)}, but {INDEX} says {expected}: {fix}"
            )
        users_file = root / f"{split}_users.npy"
        users = None
        if users_file.exists():
            users = load_array(users_file, fix)
            if users.ndim != 1 or users.dtype.kind != "U":
                raise DataError(f"{users_file}: users must be texts [N], not {users.dtype}: {fix}")
        super().__init__(
            images,
            labels,
            index["classes"],
            index.get("coarse_labels"),
            users,
            where=f"{path} and {split}_labels.npy",
        )
        if self.split_checksum != entry["sha256"]:
            raise DataError(
                f"{path}: the {split} images or labels are not those that {INDEX} has the checksum "
                f"of: {fix}"
            )
        self.data_root = str(root)
        self.split = split
        self.unofficial = bool(index.get("unofficial"))


@DATASETS.register_module()
class CIFAR10Dataset(StoredImages):
    """CIFAR-10 (Krizhevsky 2009) from a prepared folder: 32x32 RGB, 10 classes."""

    shape, num_classes = (32, 32, 3), 10


@DATASETS.register_module()
class CIFAR100Dataset(StoredImages):
    """CIFAR-100 (Krizhevsky 2009) from a prepared folder: 32x32 RGB, 100 classes in 20 groups."""

    shape, num_classes = (32, 32, 3), 100


@DATASETS.register_module()
class SyntheticShapesDataset(StoredImages):
    """Ten shapes and textures from a prepared folder: 32x32 RGB, rendered."""

    shape, num_classes = (32, 32, 3), 10


@DATASETS.register_module()
class MNISTDataset(StoredImages):
    """MNIST (LeCun 1998) from a prepared folder: 28x28 gray, 10 classes."""

    shape, num_classes = (28, 28, 1), 10


@DATASETS.register_module()
class FEMNISTDataset(StoredImages):
    """FEMNIST of LEAF (Caldas et al., 2018) from a prepared folder: 28x28 gray, 62 classes.

    ``users`` are the writers.
    """

    shape, num_classes = (28, 28, 1), 62


@DATASETS.register_module()
class ShakespeareDataset(StoredImages):
    """Shakespeare of LEAF (Caldas et al., 2018): sequences of 80 characters and the next one.

    A character is its number among the 80 classes; a sequence is stored as an image [80, 1, 1].
    ``users`` are the roles.
    """

    shape, num_classes = (80, 1, 1), 80


def check_images(
    images: np.ndarray, labels: np.ndarray, num_classes: int, where: str | Path
) -> None:
    """Raise DataError unless images are uint8 [N, H, W, C] with as many labels in range."""
    labels = np.asarray(labels)
    if images.dtype != np.uint8 or images.ndim != 4 or not len(images):
        raise DataError(
            f"{where}: images must be uint8 [N, height, width, channels], N > 0, not "
            f"{images.dtype} {list(images.shape)}"
        )
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise DataError(
            f"{where}: labels must be integers [{len(images)}], one for each image, not "
            f"{labels.dtype} {list(labels.shape)}"
        )
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if outside.size:
        raise DataError(
            f"{where}: label {labels[outside[0]]} of image {outside[0]} (and {outside.size - 1} "
            f"more) is out of range: {num_classes} classes are 0 to {num_classes - 1}"
        )


def images_checksum(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 over the images' bytes, then the labels' (int64, little endian)."""
    digest = hashlib.sha256()
    for start in range(0, len(images), 4096):
        digest.update(np.ascontiguousarray(images[start : start + 4096]))
    digest.update(np.ascontiguousarray(labels, "<i8"))
    return digest.hexdigest()


def content_checksum(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 of labeled images in any order: of the sorted digests of (image, label).

    A data set comes in several orders (its archive's, a folder's) with one content.
    """
    digests = [
        hashlib.sha256(image.tobytes() + int(label).to_bytes(8, "little")).digest()
        for image, label in zip(images, labels, strict=True)
    ]
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def shared_images(train: np.ndarray, test: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (train index, test index) of images that are the same, byte for byte."""
    if train.shape[1:] != test.shape[1:]:
        return []
    place = {image.tobytes(): i for i, image in enumerate(train)}
    pairs = ((place.get(image.tobytes()), i) for i, image in enumerate(test))
    return [(first, second) for first, second in pairs if first is not None]


def write_images(
    root: str | Path,
    name: str,
    classes: Sequence[str],
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    coarse_labels: Sequence[int] | None = None,
    users: Sequence[str] | None = None,
    synthetic: bool = False,
    unofficial: bool = False,
    source: str = "",
    allow_shared: bool = False,
) -> dict[str, Any]:
    """Write a prepared folder; the content is checked first, each file is written atomically.

    Args:
        train, test: images uint8 [N, H, W, C] and integer labels [N].
        users: the client of each training image.
        synthetic: the images are rendered, not a published data set.
        unofficial: the images were not verified to be those of the published data set.
        source: where the images come from, for people.
        allow_shared: accept images that are in both splits (they are counted in the index).

    Returns:
        The content of ``dataset.json``.
    """
    root, splits = Path(root), {"train": train, "test": test}
    for split, (images, labels) in splits.items():
        holders = users if split == "train" else None
        ImageArrays(images, labels, classes, coarse_labels, holders, where=f"{root}: {split}")
    shared = shared_images(train[0], test[0])
    if shared and not allow_shared:
        raise DataError(
            f"{root}: {len(shared)} test images are training images too, the first with train and "
            f"test index {shared[0]}: remove them from one split"
        )
    index = {
        "dataset": name,
        "classes": [str(name) for name in classes],
        "coarse_labels": None if coarse_labels is None else [int(c) for c in coarse_labels],
        "synthetic": synthetic,
        "unofficial": unofficial,
        "source": source,
        "shared_images": len(shared),
        "splits": {split: _split_index(*part) for split, part in splits.items()},
    }
    read_model(FolderIndex, index, root / INDEX, "rename the classes")
    (root / INDEX).unlink(missing_ok=True)  # half-written images have no index
    (root / USERS).unlink(missing_ok=True)  # clients of other images must not outlive them
    if users is not None:
        save_array(root / USERS, np.array(users, np.str_))
    for split, (images, labels) in splits.items():
        save_array(root / f"{split}_images.npy", images)
        save_array(root / f"{split}_labels.npy", labels.astype(np.int64))
    write_text(root / INDEX, json.dumps(index, indent=2) + "\n")
    return index


def _split_index(images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Describe a split's images: the content of a :class:`SplitIndex`."""
    return {
        "images": len(images),
        "shape": list(images.shape[1:]),
        "sha256": images_checksum(images, labels),
    }


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a ``.npy`` file atomically."""
    array = np.ascontiguousarray(array)
    with atomic_writer(path, "wb", sync=True) as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.view(np.uint8))  # numpy's own write does not say why it fails


def read_index(path: Path) -> dict[str, Any]:
    """The content of a ``dataset.json``, of the form that :func:`write_images` gives it."""
    fix = "prepare the folder again"
    index = read_json(path, fix)
    read_model(FolderIndex, index, path, fix)
    return index


def is_synthetic(root: str | Path, strict: bool = False) -> bool:
    """Read from ``dataset.json`` whether the images of a data root were rendered.

    A damaged file is an error if ``strict``; otherwise it says no.
    """
    path, fix = Path(root) / INDEX, "prepare the data again"
    if not os.path.lexists(path):
        return False
    try:
        return bool(read_model(Origin, read_json(path, fix), path, fix).synthetic)
    except DataError:
        if strict:
            raise
        return False


def is_rendered(dataset: Any) -> bool:
    """Whether images of a data set, of one that it joins or of one that lends it styles, are."""
    lender = getattr(getattr(dataset, "style", None), "lender", None)
    parts: list[Any] = []
    for images in (dataset, lender):
        parts += getattr(images, "joined", {"": images}).values()
    roots = [getattr(part, "data_root", None) for part in parts]
    return any([is_synthetic(root, strict=True) for root in roots if root])


def load_array(path: Path, fix: str, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Read a ``.npy`` file.

    Args:
        fix: what to do about a missing or damaged file, for the message.
        mmap_mode: ``"r"`` maps the file into memory instead of reading it.
    """
    if not path.is_file():
        raise MissingDataError(f"{path}: is missing: {fix}")
    try:
        array = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except DAMAGED as error:
        raise DataError(f"{path}: is damaged ({error}): {fix}") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: must be one array, not an archive of arrays: {fix}")
    return array
