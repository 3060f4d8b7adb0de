"""``--from coco``: the polygons and masks of a COCO file, drawn as ids of classes."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fedseg.errors import ConfigError, DataError, ResourceError
from fedseg.files import read_json

from .importers import BACKGROUND, Imported, Pair, size_of
from .polygons import FARTHEST


def is_coco(content: Any) -> bool:
    """True if the content of a JSON file looks like COCO's."""
    return isinstance(content, dict) and {"images", "annotations", "categories"} <= content.keys()


def read_coco(labels: Path, images: Path | None) -> Imported:
    """Classes are ``background`` and the categories by id; small shapes cover larger ones.

    Args:
        labels: the JSON file. images: what its file names are relative to (default: its folder).
    """
    content = read_json(labels) if labels.is_file() else None
    if not is_coco(content):
        raise ConfigError(f"--labels: must be a JSON file of COCO with --from coco, not {labels}.")
    shapes_of: dict[Any, list] = defaultdict(list)
    try:
        categories = sorted(content["categories"], key=lambda category: category["id"])
        names = [category["name"] for category in categories]
        classes = names if BACKGROUND in names else [BACKGROUND, *names]
        class_of = {category["id"]: classes.index(category["name"]) for category in categories}
        for shape in content["annotations"]:
            shapes_of[shape["image_id"]].append((shape, class_of[shape["category_id"]]))
        files = {i["id"]: str(PurePosixPath(i["file_name"])) for i in content["images"]}
    except (LookupError, TypeError) as error:
        raise DataError(f"{labels}: is no whole COCO file ({error!r}): export it again.") from error

    def draw(image: Any) -> Pair:
        path = (images or labels.parent) / files[image]
        size = size_of(path)
        masks = [(_mask(labels, shape, size), number) for shape, number in shapes_of[image]]
        ids = np.full(size, classes.index(BACKGROUND), np.uint8)
        for mask, number in sorted(masks, key=lambda drawn: -drawn[0].sum()):
            ids[mask] = number
        return Pair(files[image], path, ids)

    return Imported(classes, len(files), map(draw, files))


def _mask(labels: Path, shape: Mapping[str, Any], size: tuple[int, int]) -> np.ndarray:
    """The pixels of an annotation, bool [H, W]."""
    try:
        from pycocotools import mask
    except ImportError as error:
        raise ResourceError("--from: coco needs pycocotools: pip install 'fedseg[coco]'") from error
    drawn = shape.get("segmentation")
    try:
        if isinstance(drawn, dict):
            valid = drawn["size"] == [*size] and sum(drawn["counts"]) == size[0] * size[1]
            valid = valid and min(drawn["counts"]) >= 0
            drawn = [drawn]
        else:
            polygons = [np.array(polygon, float) for polygon in drawn]
            valid = len(polygons) > 0 and all(_is_polygon(points) for points in polygons)
        runs = mask.frPyObjects(drawn, *size) if valid else None
    except (LookupError, TypeError, ValueError):
        runs = None
    if runs is None:
        must = "must be polygons, or a mask of its image's size with a list of counts"
        raise DataError(f"{labels}: annotation {shape.get('id')!r}: segmentation {must}.")
    return mask.decode(mask.merge(runs)).astype(bool)


def _is_polygon(points: np.ndarray) -> bool:
    """True for x, y, x, y, ... of three points or more."""
    pairs = points.ndim == 1 and len(points) >= 6 and len(points) % 2 == 0
    return pairs and bool((np.abs(points) <= FARTHEST).all())
