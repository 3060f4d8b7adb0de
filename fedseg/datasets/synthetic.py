"""Synthetic data: how a data root says so, and the shapes that stand in for CIFAR-10."""

import os
from pathlib import Path

from fedseg.datasets.arrays import INDEX, StoredImages
from fedseg.errors import DataError
from fedseg.files import read_json
from fedseg.registry import DATASETS


def is_synthetic(root: str | Path, strict: bool = False) -> bool:
    """Whether the images of a data root were rendered, according to its ``dataset.json``.

    Raises:
        DataError: the file is damaged, and ``strict``; otherwise a damaged one says no.
    """
    path = Path(root) / INDEX
    if not os.path.lexists(path):
        return False
    try:
        content = read_json(path, "prepare the data again")
        if not isinstance(content, dict):
            raise DataError(f"{path}: holds no object: prepare the data again")
        if "embedded" in content:  # of an early version
            raise DataError(f"{path}: says embedded in place of synthetic: prepare the data again")
        found = content.get("synthetic", False)
        if not isinstance(found, bool):
            raise DataError(f"{path}: synthetic: is {found!r}, no flag: prepare the data again")
        return found
    except DataError:
        if strict:
            raise
        return False


@DATASETS.register_module()
class SyntheticShapesDataset(StoredImages):
    """Ten shapes and textures from a prepared folder: 32x32 RGB, rendered.

    Arguments: see :class:`fedseg.datasets.arrays.StoredImages`.
    """

    tool = "fedseg prepare cifar --synthetic"
    shape, num_classes = (32, 32, 3), 10
