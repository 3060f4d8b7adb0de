"""Own data in the form of another tool, written once as images, label maps of ids and classes.

An importer reads what ``--labels`` and ``--images`` name and yields its pairs. Here they are
written below a root: ``images/``, ``labels/*.png`` and ``classes.txt``. Below is what importers
share.
"""

import filecmp
import glob
import io
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from fedseg.datasets.images import ENDINGS
from fedseg.datasets.listed import color_of
from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, read_json
from fedseg.partition import check_path

from .classes import classes_text
from .disk import read_header
from .parallel import track

CLASSES = "classes.txt"
BACKGROUND = "background"  # the class of pixels without an annotation


@dataclass(frozen=True)
class Pair:
    """An image and its label map."""

    name: str  # of the image below images/, such as "site/1.jpg"
    image: Path
    ids: np.ndarray  # uint8 [H, W]


@dataclass(frozen=True)
class Imported:
    """What an importer has read."""

    classes: Sequence[str]  # by id
    count: int  # of the pairs
    pairs: Iterable[Pair]  # read one by one
    colors: Sequence[Sequence[int]] = ()  # [r, g, b] by id; none: Pascal VOC's


def write_imported(
    imported: Imported, root: Path, labels: Path, overwrite: bool
) -> tuple[str, str]:
    """Write the data of a tool below a root; returns templates of the images and the label maps.

    Images in folders have these as their domains.

    Args:
        labels: the tool's file or folder of annotations, for messages.
        overwrite: replace files that differ.
    """
    if not 1 <= len(imported.classes) <= IGNORE:
        must = f"must name 1 to {IGNORE} classes"
        raise DataError(f"{labels}: {must}, not {len(imported.classes)}.")
    palette = [*imported.colors, *map(color_of, range(len(imported.colors), 256))]
    text = classes_text(labels, imported.classes, palette[: len(imported.classes)])
    image_of: dict[Path, str] = {}
    for pair in track(imported.pairs, imported.count, "importing"):
        fault = check_path(pair.name)
        if fault:
            raise DataError(f"{labels}: image {pair.name!r} {fault}: rename it.")
        target = root / "labels" / PurePosixPath(pair.name).with_suffix(".png")
        other = image_of.setdefault(target, pair.name)
        if other != pair.name:
            raise DataError(f"{labels}: images {other!r} and {pair.name!r} differ in their ending.")
        _copy(pair.image, root / "images" / pair.name, overwrite)
        _write(target, _png(pair.ids, palette), overwrite)
    _write(root / CLASSES, text.encode(), overwrite)
    depths = {name.count("/") for name in image_of.values()}
    if not depths:
        raise DataError(f"{labels}: has no images: give another file or folder with --labels.")
    if depths == {0}:
        return "images/{name}.{ending}", "labels/{name}.png"
    if depths == {1}:
        return "images/{domain}/{name}.{ending}", "labels/{domain}/{name}.png"
    raise DataError(f"{labels}: must have all images in one folder, or one folder for each domain.")


def _png(ids: np.ndarray, palette: Sequence[Sequence[int]]) -> bytes:
    picture = Image.fromarray(ids, "P")
    picture.putpalette(np.array(palette, np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _copy(source: Path, target: Path, overwrite: bool) -> None:
    if target.exists():
        if filecmp.cmp(source, target, shallow=False):
            return
        _check_overwrite(target, overwrite)
    with atomic_writer(target, "wb") as file, open(source, "rb") as original:
        shutil.copyfileobj(original, file)


def _write(target: Path, content: bytes, overwrite: bool) -> None:
    if target.exists():
        if target.read_bytes() == content:
            return
        _check_overwrite(target, overwrite)
    with atomic_writer(target, "wb") as file:
        file.write(content)


def _check_overwrite(target: Path, overwrite: bool) -> None:
    if not overwrite:
        raise DataError(f"{target}: is another file: give --overwrite to replace it.")


# ---- what importers share


def with_background(names: Sequence[str]) -> list[str]:
    """List classes by id: ``background`` and the others in their order."""
    return [BACKGROUND, *(name for name in names if name != BACKGROUND)]


def paint(size: tuple[int, int], masks: Iterable[tuple[np.ndarray, int]]) -> np.ndarray:
    """Paint ids over a background of 0, later ones over earlier ones: uint8 [H, W].

    Args:
        size: height and width.
        masks: pixels, bool [H, W], and their id.
    """
    ids = np.zeros(size, np.uint8)
    for mask, number in masks:
        ids[mask] = number
    return ids


@contextmanager
def refuse_as(fault: str) -> Iterator[None]:
    """Raise DataError with this text for content that is damaged or of another form."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(f"{fault} ({error!r}): export it again.") from error


def is_coco(content: Any) -> bool:
    """Compare the content of a JSON file with the form of COCO's."""
    return isinstance(content, dict) and {"images", "annotations", "categories"} <= content.keys()


def read_coco_file(path: Path) -> dict[str, Any]:
    """Read a JSON file of COCO."""
    content = read_json(path) if path.is_file() else None
    if not is_coco(content):
        raise ConfigError(f"--labels: must be a JSON file of COCO with --from coco, not {path}.")
    return content


def files_below(folder: Path, ending: str, contents: str) -> list[str]:
    """List the files below a folder that another tool has written, sorted by path.

    Args:
        contents: what they are, for the message if there is none.
    """
    paths = glob.glob(f"**/*{ending}", root_dir=folder, recursive=True)
    written = sorted(path for path in paths if not path.startswith("splits/"))
    if not written:
        raise ConfigError(f"--labels: must be a folder with {contents}, not {folder}.")
    return written


def find_image(folder: Path, name: str) -> str:
    """Find the image whose path below a folder is that of another file but for its ending."""
    path = PurePosixPath(name)
    for ending in ENDINGS:
        for image in (path.with_suffix(ending), path.with_suffix(ending.upper())):
            if (folder / image).is_file():
                return str(image)
    raise DataError(
        f"{folder}: has no image {path.with_suffix('')}: name its folder with --images."
    )


def size_of(image: Path) -> tuple[int, int]:
    """Read the (height, width) of an image file."""
    if not image.is_file():
        raise DataError(f"{image}: does not exist: name the folder of the images with --images.")
    try:
        width, height = read_header(image).size
    except OSError as error:
        raise DataError(f"{image}: is no whole image ({error}): copy it again.") from error
    return height, width
