"""``--from labelme``: polygons, rectangles and circles of labelme's files, drawn as class ids."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import DataError
from fedseg.files import read_json

from . import importers
from .classes import NO_CLASS


def read_labelme(labels: Path, images: Path | None) -> importers.Imported:
    """Read a folder's JSON files; images with their names are in ``images`` or else beside them.

    Classes are ``background``, for pixels without a shape, and the labels in alphabetical order.
    """
    ids = {NO_CLASS: IGNORE}
    shapes_of = {}
    for file in importers.files_below(labels, ".json", "labelme's JSON files"):
        with importers.refuse_as(f"{labels / file}: is no whole labelme file"):
            shapes_of[file] = read_json(labels / file)["shapes"]
            for shape in shapes_of[file]:
                shape["points"] = np.array(shape["points"], float).reshape(-1, 2)
                ids.setdefault(shape["label"], 0)
    classes = importers.with_background(sorted(ids.keys() - {NO_CLASS}))
    ids.update({name: number for number, name in enumerate(classes)})

    def read(file: str) -> importers.Pair:
        name = importers.find_image(images or labels, file)
        path = (images or labels) / name
        size = importers.size_of(path)
        masks = [(_draw(labels / file, s, size), ids[s["label"]]) for s in shapes_of[file]]
        return importers.Pair(name, path, importers.paint(size, masks))

    return importers.Imported(classes, len(shapes_of), map(read, shapes_of))


def _draw(file: Path, shape: dict[str, Any], size: tuple[int, int]) -> np.ndarray:
    """Draw a shape: bool [H, W]."""
    canvas = Image.new("1", size[::-1])
    pen = ImageDraw.Draw(canvas)
    points = shape["points"]
    if not ((points >= -1).all() and (points <= np.array(size[::-1]) + 1).all()):
        raise DataError(f"{file}: {shape['label']}: must be inside of the image {size} [H, W].")
    kind = shape.get("shape_type")
    count = len(points)
    if kind == "polygon" and count > 2:
        pen.polygon([*map(tuple, points.tolist())], 1, 1)
    elif kind == "rectangle" and count == 2:
        pen.rectangle([*points.min(axis=0), *points.max(axis=0)], 1, 1)
    elif kind == "circle" and count == 2:
        radius = np.linalg.norm(points[1] - points[0])
        pen.ellipse([*(points[0] - radius), *(points[0] + radius)], 1, 1)
    else:
        must = "must be a polygon of three points, or a rectangle or circle of two"
        raise DataError(f"{file}: {shape['label']}: {must}, not {count} of a {kind}.")
    return np.array(canvas)
