"""Label maps from polygons: JSON files of labelme and of Cityscapes, drawn as their tools do."""

import base64
import io
import math
from collections.abc import Mapping
from pathlib import Path
from unicodedata import normalize

import numpy as np
from PIL import Image, ImageDraw

from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import DataError
from fedseg.files import read_json
from fedseg.names import did_you_mean

FARTHEST = 100_000  # pixels from the image's corner, of a point that is no mistake
NOT_DRAWN = "license plate"  # Cityscapes' only label with a negative id
VOID = (  # labels of Cityscapes that are none of its 19 classes
    *("unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic"),
    *("ground", "parking", "rail track", "guard rail", "bridge", "tunnel", "polegroup", "caravan"),
    *("trailer",),
)


def draw_polygons(path: Path, ids: Mapping[str, int], size: tuple[int, int]) -> np.ndarray:
    """The ids of a file's shapes, uint8 [H, W]; later shapes cover earlier ones.

    What no shape covers is the class ``background`` or ``unlabeled`` if there is one, else ignored.

    Args:
        ids: id by label; 255 for labels that are ignored.
        size: height and width of the image.
    """
    content = read_json(path)
    key = "objects" if isinstance(content, dict) and "objects" in content else "shapes"
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        fault = "has no list of labelme's shapes or Cityscapes' objects"
        fix = "annotations of COCO and CVAT are read with --from"
        raise DataError(f"{path}: {fault}: {fix}")
    by_name = {name.strip("_"): value for name, value in ids.items()}
    rest = by_name.get("background", ids.get("unlabeled", IGNORE))
    if key == "objects":
        ids = {**dict.fromkeys(VOID, IGNORE), **ids}
    canvas = Image.new("L", size[::-1], rest)
    draw = ImageDraw.Draw(canvas)
    try:
        prefix = "img" if key == "objects" else "image"
        height, width = f"{prefix}Height", f"{prefix}Width"
        sized = bool(content.get(height) and content.get(width))
        if (content.get(height) or size[0], content.get(width) or size[1]) != size:
            raise ValueError(
                f"its {height} and {width} are {content.get(height)!r} and "
                f"{content.get(width)!r}, but its image is {list(size)} [H, W]"
            )
        for number, shape in enumerate(content[key]):
            key = f"{key.partition('[')[0]}[{number}]"
            if shape.get("deleted") or (shape["label"] == NOT_DRAWN and NOT_DRAWN not in ids):
                continue
            label = normalize("NFC", str(shape["label"]))
            if label not in ids and label.removesuffix("group") in ids:  # Cityscapes' cargroup
                label = label.removesuffix("group")
            if label not in ids:
                hint = did_you_mean(label, ids)
                raise ValueError(f"unknown label {label!r}{hint}: name it in --classes or --ignore")
            value = ids[label]
            points = shape["polygon"] if "polygon" in shape else shape["points"]
            if not all(isinstance(pair, list) and len(pair) == 2 for pair in points or [0]):
                raise ValueError("its points must be a list of pairs [x, y]")
            points = [(float(x), float(y)) for x, y in points]
            if not all(abs(place) <= FARTHEST for point in points for place in point):
                raise ValueError("has a point far away from the image")
            kind = shape.get("shape_type") or "polygon"
            if kind == "rotation" or (kind == "rectangle" and len(points) == 4):
                kind = "polygon"  # of X-AnyLabeling
            if kind in ("rectangle", "circle") and len(points) != 2:
                raise ValueError("must have two points: corners, or center and rim")
            box, over = points, math.inf if sized else 1  # how far it may reach over the edge
            if kind == "mask":  # where labelme's brush has painted
                painted, (x, y), over = _read_mask(shape.get("mask")), map(int, points[0]), 0
                box = [(x, y), (x + painted.width, y + painted.height)]
                told = [1 + max(places) - min(places) for places in zip(*points, strict=True)]
                if len(points) > 1 and math.dist(told, painted.size) >= 2:
                    raise ValueError(f"its mask is {painted.size}, but its points are {told} apart")
            elif kind == "circle":
                (x, y), rim = points
                r = math.dist((x, y), rim)
                box = [(x - r, y - r), (x + r, y + r)]
            ends = [(min(places), max(places)) for places in zip(*box, strict=True)]
            out = any(
                end < 0 or begin >= side or begin < -over or end > side + over
                for (begin, end), side in zip(ends, size[::-1], strict=False)
            )
            if out and (key.startswith("shapes") or not sized):
                raise ValueError("is outside of the image or partly: was it drawn on another size?")
            tiny = all(end == begin or end <= 1 for begin, end in ends)  # nothing, or shares
            empty = not painted.getbbox() if kind == "mask" else tiny
            if empty and key.startswith("shapes"):
                raise ValueError("covers no pixel: delete it, or give points in pixels, no shares")
            if kind == "mask":
                canvas.paste(value, (x, y), painted)
            elif kind == "polygon":
                edge = {} if "polygon" in shape else {"outline": value}
                if len(points) < 2 + len(edge):
                    raise ValueError("has too few points for a polygon")
                draw.polygon(points, fill=value, **edge)
            elif kind in ("rectangle", "circle"):
                paint = draw.rectangle if kind == "rectangle" else draw.ellipse
                paint([*zip(*ends, strict=True)], value, value)
            else:
                raise ValueError(f"is a {kind}, which covers no area: make it a polygon")
    except (LookupError, TypeError, ValueError, AttributeError, OSError, ArithmeticError) as error:
        reason = f"has no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{path}: {key}: {reason}") from error
    return np.array(canvas)


def _read_mask(text: object) -> Image.Image:
    """The pixels that are painted, of a picture in base64."""
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(text, validate=True)))
        picture.load()
    except Exception as error:  # damaged bytes can fail in any way
        raise ValueError("its mask must be a PNG in base64: save it again") from error
    if picture.mode not in ("1", "L"):
        raise ValueError(f"its mask is {picture.mode}: make it black and white, 0 is not painted")
    return picture.convert("L").point(lambda pixel: 255 * (pixel > 0))
