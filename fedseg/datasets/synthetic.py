"""Synthetic data: how a data root says so, and the shapes that stand in for CIFAR-10."""

import json
from pathlib import Path

from fedseg.datasets.arrays import INDEX, StoredImages
from fedseg.errors import DataError
from fedseg.registry import DATASETS

MARKER = INDEX
"""The file of a data root that says how its images were made."""


def is_synthetic(root: str | Path, strict: bool = False) -> bool:
    """Whether the images of a data root were rendered, according to its ``dataset.json``.

    Raises:
        DataError: the file is damaged, and ``strict``; otherwise a damaged one says no.
    """
    path = Path(root) / MARKER
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return bool(content.get("synthetic", content.get("embedded")))  # old key
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError) as error:
        if strict:
            raise DataError(f"{path}: is damaged ({error}): prepare the data again") from error
        return False


@DATASETS.register_module(name=["SyntheticShapesDataset", "EmbeddedImagesDataset"])
class SyntheticShapesDataset(StoredImages):
    """Ten shapes and textures from a prepared folder: 32x32 RGB, rendered.

    ``EmbeddedImagesDataset`` is its old name, which configs may still use. Arguments: see
    :class:`fedseg.datasets.arrays.StoredImages`.
    """

    tool = "tools/prepare_cifar.py --synthetic"
    shape, num_classes = (32, 32, 3), 10
