"""Own data in the form of another tool, written once as images, label maps of ids and classes.

An importer reads what ``--labels`` and ``--images`` name and yields its pairs. Here they are
written below a root: ``images/``, ``labels/*.png`` and ``classes.txt``.
"""

import filecmp
import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from fedseg.datasets.images import ENDINGS
from fedseg.datasets.listed import color_of
from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer
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
        if fault := check_path(pair.name):
            raise DataError(f"{labels}: image {pair.name!r} {fault}: rename it.")
        target = root / "labels" / PurePosixPath(pair.name).with_suffix(".png")
        other = image_of.setdefault(target, pair.name)
        if other != pair.name:
            raise DataError(f"{labels}: images {other!r} and {pair.name!r} differ in their ending.")
        _copy(pair.image, root / "images" / pair.name, overwrite)
        _write(target, _png(pair.ids, palette), overwrite)
    if not image_of:
        raise DataError(f"{labels}: has no images: give another file or folder with --labels.")
    _write(root / CLASSES, text.encode(), overwrite)
    depths = {name.count("/") for name in image_of.values()}
    if depths == {0}:
        return "images/{name}.{ending}", "labels/{name}.png"
    if depths == {1}:
        return "images/{domain}/{name}.{ending}", "labels/{domain}/{name}.png"
    raise DataError(f"{labels}: must have all images in one folder, or one folder for each domain.")


def find_path(option: str, value: str | None, root: Path) -> Path | None:
    """The file or folder that an option names, here or below the root; None without it."""
    if value is None:
        return None
    path = Path(value)
    if not path.exists():
        path = root / path
    if not path.exists():
        raise ConfigError(f"{option}: must be a file or folder that exists, not {value!r}.")
    return path


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
    """(height, width) of an image file."""
    if not image.is_file():
        raise DataError(f"{image}: does not exist: name the folder of the images with --images.")
    try:
        width, height = read_header(image).size
    except OSError as error:
        raise DataError(f"{image}: is no whole image ({error}): copy it again.") from error
    return height, width


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
