"""``--from cvat``: CVAT's "Segmentation mask 1.1", colors that ``labelmap.txt`` names."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedseg.datasets.images import read_image
from fedseg.errors import ConfigError, DataError

from .classes import read_text
from .importers import Imported, Pair, files_below, find_image

LABELS = "labelmap.txt"
MASKS, IMAGES = "SegmentationClass", "JPEGImages"
LINE = re.compile(r"(.+?):(\d{1,3}),(\d{1,3}),(\d{1,3}):[^:]*:[^:]*")  # name, color, parts, actions


def read_cvat(labels: Path, images: Path | None) -> Imported:
    """Classes are the lines of ``labelmap.txt``, in their order.

    Args:
        labels: the unpacked folder. images: that of the images (default: its ``JPEGImages``).
    """
    if not (labels / LABELS).is_file():
        raise ConfigError(f"--labels: must be CVAT's folder with {LABELS}, not {labels}.")
    classes, colors = [], []
    for number, line in enumerate(read_text(labels / LABELS).splitlines(), start=1):
        match = LINE.fullmatch(line.strip())
        if match is not None and not line.startswith("#"):
            classes.append(match[1])
            colors.append([int(channel) for channel in match.groups()[1:]])
        elif line.strip() and not line.startswith("#"):
            must = "must be name:r,g,b:parts:actions"
            raise DataError(f"{labels / LABELS}: line {number}: {must}, not {line!r}.")
    folder = images or labels / IMAGES
    masks = files_below(labels / MASKS, ".png", "CVAT's label maps")

    def read(mask: str) -> Pair:
        image = find_image(folder, mask)
        return Pair(image, folder / image, _ids_of_colors(labels / MASKS / mask, colors))

    return Imported(classes, len(masks), map(read, masks), colors)


def _ids_of_colors(mask: Path, colors: Sequence[Sequence[int]]) -> np.ndarray:
    """Read a picture of class colors as the position of each color in the table, uint8 [H, W]."""
    picture = read_image(str(mask))
    ids = np.zeros(picture.shape[:2], np.uint8)
    known = np.zeros(picture.shape[:2], bool)
    for number, color in enumerate(colors):
        pixels = (picture == color).all(axis=2)
        ids[pixels] = number
        known |= pixels
    if not known.all():
        unknown = picture[~known][0].tolist()
        raise DataError(f"{mask}: has the color {unknown}: add it to {LABELS}.")
    return ids
