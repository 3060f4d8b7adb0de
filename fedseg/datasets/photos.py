"""Photographs of one class each, read from disk on demand; folders of classes as ImageNet's."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt
from torch.utils.data import Dataset
from torchvision.datasets.folder import find_classes, make_dataset

from fedseg.datasets.images import ENDINGS, read_image
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import DataError, MissingDataError
from fedseg.registry import DATASETS

PIPELINES = {
    "train": (dict(type="RandomResizedCrop", size=(224, 224)), dict(type="HorizontalFlip", p=0.5)),
    "test": (
        dict(type="SmallestMaxSize", max_size=256),
        dict(type="CenterCrop", height=224, width=224),
    ),
}


class PhotoDataset(Dataset):
    """Base of images that are read when they are asked for.

    ``dataset[i]`` or ``dataset[i, seed]`` is ``dict(inputs=..., data_samples=...)``: ``inputs``
    uint8 [3, H, W] RGB, ``data_samples`` the class, int64. ``seed`` fixes every random draw of the
    sample, in whatever process it is made; ``dataset[i]`` is seed 0.

    Args:
        data_root: the folder of the data set.
        split: which images.
        pipeline: transforms after reading; None: the default of ``train``, or else of ``test``.

    Attributes:
        files: per sample, (image path,).
        labels: int64 [N].
    """

    seeded = True
    domains: list[str] | None = None
    files: list[tuple[str]]
    labels: np.ndarray

    def __init__(
        self, data_root: str | Path, split: str, pipeline: Sequence[Mapping[str, Any]] | None
    ) -> None:
        self.data_root, self.split = os.fspath(data_root), split
        default = PIPELINES["train" if split == "train" else "test"]
        self.pipeline = Pipeline(default if pipeline is None else pipeline)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, torch.Tensor]:
        index, seed = key if isinstance(key, tuple) else (key, 0)
        image = self.pipeline.transform(seed, image=read_image(self.files[index][0]))["image"]
        pixels = np.ascontiguousarray(image.transpose(2, 0, 1))
        label = torch.tensor(int(self.labels[index]), dtype=torch.int64)
        return {"inputs": torch.from_numpy(pixels), "data_samples": label}


def rows_checksum(rows: Sequence[Sequence[Any]], **options: Any) -> str:
    """SHA-256 of one row per sample, as JSON."""
    return hashlib.sha256(json.dumps(rows, **options).encode()).hexdigest()


@DATASETS.register_module()
class ImageFolderDataset(PhotoDataset):
    """A folder of images for each class: ``<data_root>/<split>/<class>/*.JPEG``, as ImageNet's.

    Read by torchvision's rules: classes are the folders of ``train`` if there is one, else of the
    split, labels their alphabetical order; images are all ``.jpg``, ``.jpeg`` and ``.png`` below.

    Args:
        data_root: the folder with the splits.
        split: the folder with the classes, such as ``"train"`` or ``"val"``.
        num_classes: how many there must be.
        pipeline: transforms of albumentations, as in
            :class:`~fedseg.datasets.segmentation.SegmentationDataset`. None: for ``train`` a random
            crop resized to 224x224 and a horizontal flip, for any other split the shorter side
            resized to 256 and the central 224x224.

    Attributes:
        metainfo: ``classes``, the names of the folders.
        split_checksum: SHA-256 of the images' names and classes.
    """

    def __init__(
        self,
        data_root: str | Path,
        split: str = "train",
        num_classes: PositiveInt = 1000,
        pipeline: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(data_root, split, pipeline)
        folder, training = Path(data_root, split), Path(data_root, "train")
        if not folder.is_dir():
            raise MissingDataError(
                f"{folder}: is missing: unpack the images there or set data_root"
            )
        if not training.is_dir():
            training = folder
        try:
            classes, numbers = find_classes(training)
            for name in find_classes(folder)[0]:
                if name not in numbers:
                    raise DataError(f"{folder / name}: must be a class of {training}: move it away")
            samples = make_dataset(folder, numbers, ENDINGS, allow_empty=split != "train")
        except FileNotFoundError as error:  # no class, or no image of a class
            raise DataError(f"{folder}: {error}") from error
        if len(classes) != num_classes:
            raise DataError(
                f"{folder}: has {len(classes)} classes, not {num_classes}: set dataset.num_classes"
            )
        if not samples:
            raise DataError(f"{folder}: has no images: they end in {', '.join(ENDINGS)}")
        self.metainfo = {"classes": tuple(classes)}
        self.files = [(path,) for path, _ in samples]
        self.labels = np.array([label for _, label in samples], np.int64)
        rows = [[os.path.relpath(path, folder), label] for path, label in samples]
        self.split_checksum = rows_checksum(rows)
