"""Synthetic data: how a data root says so, and the shapes that stand in for CIFAR-10."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from fedseg.config.schema import STRICT, read_model
from fedseg.datasets.arrays import INDEX, StoredImages
from fedseg.errors import DataError
from fedseg.files import read_json
from fedseg.registry import DATASETS


class Origin(BaseModel):
    """The part of ``dataset.json`` that every data set has."""

    model_config = STRICT
    synthetic: bool = False
    embedded: Literal[None] = None  # its name in an early version


def is_synthetic(root: str | Path, strict: bool = False) -> bool:
    """Read from ``dataset.json`` whether the images of a data root were rendered.

    A damaged file is an error if ``strict``; otherwise it says no.
    """
    path, fix = Path(root) / INDEX, "prepare the data again"
    if not os.path.lexists(path):
        return False
    try:
        return read_model(Origin, read_json(path, fix), path, fix).synthetic
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
