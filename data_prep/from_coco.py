"""``--from coco``: the polygons and masks of a COCO file, drawn as ids of classes."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools import mask

from .importers import Imported, Pair, paint, read_coco_file, refuse_as, size_of, with_background

FARTHEST = 100_000  # pixels from the image's corner, of a point that is no mistake


def read_coco(labels: Path, images: Path | None) -> Imported:
    """Read a file, whose names of images are relative to ``images`` or else to its folder.

    Classes are ``background`` and the categories by id; small shapes cover larger ones.
    """
    content = read_coco_file(labels)
    shapes_of = defaultdict(list)
    with refuse_as(f"{labels}: is no whole COCO file"):
        names = {category["id"]: category["name"] for category in content["categories"]}
        classes = with_background([names[number] for number in sorted(names)])
        files = {image["id"]: Path(image["file_name"]).as_posix() for image in content["images"]}
        for shape in content["annotations"]:
            shapes_of[shape["image_id"]].append((shape, classes.index(names[shape["category_id"]])))

    def read(image: Any) -> Pair:
        path = (images or labels.parent) / files[image]
        size = size_of(path)
        masks = [(_draw(labels, shape, size), number) for shape, number in shapes_of[image]]
        masks.sort(key=lambda drawn: drawn[0].sum(), reverse=True)
        return Pair(files[image], path, paint(size, masks))

    return Imported(classes, len(files), map(read, files))


def _draw(labels: Path, shape: Mapping[str, Any], size: tuple[int, int]) -> np.ndarray:
    """Draw an annotation: bool [H, W]."""
    form = "must be polygons, or a mask of its image's size with a list of counts"
    with refuse_as(f"{labels}: annotation {shape.get('id')}: segmentation {form}"):
        runs = mask.frPyObjects(_check(shape["segmentation"], size), *size)
    return mask.decode(mask.merge(runs)).astype(bool)


def _check(drawn: Any, size: tuple[int, int]) -> list[Any]:
    """Return polygons, or a list of the runs of a mask; ValueError unless they fit the image."""
    if isinstance(drawn, dict):
        counts = drawn["counts"]
        if drawn["size"] != [*size] or sum(counts) != size[0] * size[1] or min(counts) < 0:
            raise ValueError("the runs do not fill the image")
        return [drawn]
    for polygon in drawn:
        inside = all(abs(place) <= FARTHEST for place in polygon)
        if len(polygon) < 6 or len(polygon) % 2 or not inside:
            raise ValueError("a polygon is x, y, x, y, ... of three points or more")
    return drawn
