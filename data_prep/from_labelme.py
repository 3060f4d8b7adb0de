"""``--from labelme``: polygons, rectangles and circles of labelme's files, drawn as class ids."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_json

from .classes import NO_CLASS
from .disk import annotations_of
from .importers import BACKGROUND, Imported, Pair, find_image, size_of

Shape = tuple[str, str, np.ndarray]  # label, kind and points [N, 2] of x and y


def read_labelme(labels: Path, images: Path | None) -> Imported:
    """Read a folder's JSON files. Classes are ``background`` and the labels in alphabetical order.

    Pixels without a shape are background, those of the label ``__ignore__`` are ignored. Later
    shapes cover earlier ones.

    Args:
        labels: the folder. images: that of the images, which have the names of the JSON files
            (default: the same folder).
    """
    files = annotations_of(labels, ".json")
    if not files:
        raise ConfigError(f"--labels: must be a folder with labelme's JSON files, not {labels}.")
    shapes_of = {file: _read_shapes(labels / file) for file in files}
    names = {label for shapes in shapes_of.values() for label, _, _ in shapes}
    classes = [BACKGROUND, *sorted(names - {BACKGROUND, NO_CLASS})]
    ids = {name: number for number, name in enumerate(classes)}
    ids[NO_CLASS] = IGNORE
    folder = images or labels

    def draw(file: str) -> Pair:
        name = find_image(folder, file)
        size = size_of(folder / name)
        return Pair(name, folder / name, _draw(labels / file, shapes_of[file], ids, size))

    return Imported(classes, len(files), map(draw, files))


def _read_shapes(file: Path) -> list[Shape]:
    content = read_json(file)
    try:
        return [
            (shape["label"], shape["shape_type"], np.array(shape["points"], float).reshape(-1, 2))
            for shape in content["shapes"]
        ]
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(f"{file}: is no whole labelme file ({error!r}): save it again.") from error


def _draw(
    file: Path, shapes: Sequence[Shape], ids: Mapping[str, int], size: tuple[int, int]
) -> np.ndarray:
    """The ids of an image of a size (height, width), uint8 [H, W]."""
    canvas = Image.new("L", size[::-1], ids[BACKGROUND])
    pen = ImageDraw.Draw(canvas)
    for number, (label, kind, points) in enumerate(shapes):
        inside = (points >= -1).all() and (points <= np.array(size[::-1]) + 1).all()
        if not inside:
            raise DataError(f"{file}: shapes[{number}]: must be inside of the image {size} [H, W].")
        corners = [(x, y) for x, y in points.tolist()]
        if kind == "polygon" and len(corners) > 2:
            pen.polygon(corners, ids[label], ids[label])
        elif kind == "rectangle" and len(corners) == 2:
            box = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
            pen.rectangle(box, ids[label], ids[label])
        elif kind == "circle" and len(corners) == 2:
            center, rim = points
            radius = np.linalg.norm(rim - center)
            box = (*(center - radius).tolist(), *(center + radius).tolist())
            pen.ellipse(box, ids[label], ids[label])
        else:
            must = "must be a polygon of three points, or a rectangle or circle of two"
            raise DataError(f"{file}: shapes[{number}]: {must}, not {len(corners)} of a {kind}.")
    return np.array(canvas)
