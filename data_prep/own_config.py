"""The config that trains on a user's folder."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.errors import DataError
from fedseg.files import write_text

from .layout_images import LabeledImage
from .layouts import Layout
from .split_folders import PreparedSplit

CROP, STEP = 512, 32  # largest training crop, and what its sides are multiples of
TEMPLATE = Path(__file__).with_name("own_config.py.txt")


def write_config(
    root: Path,
    layout: Layout,
    images: Sequence[LabeledImage],
    split: PreparedSplit,
    overwrite: bool,
) -> Path:
    """Write a config that trains on the split, unless it is there; returns its path.

    Args:
        overwrite: replace another config.
    """
    name = "own_" + re.sub(r"\W+", "_", root.resolve().name)  # no setting of the suite
    data = {
        "image_path": layout.images,
        "label_path": layout.labels,
        "classes": list(layout.classes),
        "palette": [list(color) for color in layout.palette],
    }
    sizes = {image.size for image in images}
    batch_size = 4 if len(sizes) == 1 else 1  # images of a test batch are of one size
    text = TEMPLATE.read_text("utf-8").format(
        name=name,
        options="\n".join(f"    {key}={value!r}," for key, value in data.items()),
        crop=_crop_size(images),
        classes=len(layout.classes),
        participants=min(5, len(split.train.users)),
        tests="\n".join(_test_loader(user, batch_size) for user in split.test.users),
    )
    path = root / f"{name}.py"
    if path.exists() and path.read_text("utf-8") != text and not overwrite:
        raise DataError(f"{path}: is another config: give --overwrite to replace it")
    write_text(path, text)
    return path


def _crop_size(images: Sequence[LabeledImage]) -> tuple[int, ...]:
    """Choose a training crop (height, width) that fits into the median image."""
    height, width = np.median([image.size for image in images], axis=0)
    return _crop_side(height), _crop_side(width)


def _crop_side(length: Any) -> int:
    return int(min(CROP, max(2, length // STEP) * STEP))


def _test_loader(user: str, batch_size: int) -> str:
    """Write the loader of a test user."""
    dataset = f'dataset=dict(users="{user}", **__test)'
    return f"    {user}=dict(batch_size={batch_size}, num_workers=2, {dataset}),"
