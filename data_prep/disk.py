"""Images and label maps on disk: which are pairs, and whether their headers fit."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from fedseg.datasets.arrays import is_synthetic
from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.templates import fill, find_files
from fedseg.errors import DataError

from .parallel import in_threads

SHOWN = 5  # items of a fault
END_MARKERS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
Sample = tuple[str, str]  # image and label map, relative to their roots
Images = dict[str, list[Sample]]  # domain -> samples, by name


class Findings:
    """Collects what is wrong with ``subject``; the error shows five items of the first kind.

    Args:
        fix: what to do about it.
    """

    def __init__(self, subject: str, fix: str) -> None:
        self.subject, self.fix = subject, fix
        self._items: dict[str, list[str]] = {}

    def add(self, kind: str, items: Iterable[str]) -> None:
        """Note items of one kind, for example ``"images without a label map"``."""
        self._items.setdefault(kind, []).extend(items)

    def raise_any(self) -> None:
        """Raise DataError if anything was noted."""
        for kind, items in self._items.items():
            if items:
                raise DataError(f"{self.subject}: {len(items)} {kind}: {shown(items)}: {self.fix}")


@dataclass(frozen=True)
class Pairs:
    """Images and label maps of two templates."""

    samples: list[Sample]  # by path of the image
    images: list[str]  # without a label map
    labels: list[str]  # without an image


def shown(items: Sequence[str]) -> str:
    """The first few items as a text."""
    return ", ".join(items[:SHOWN]) + (", ..." if len(items) > SHOWN else "")


def find_pairs(roots: Sequence[Path], images: str, labels: str) -> Pairs:
    """Pair the images and the label maps that are on disk.

    Args:
        roots: of images and of label maps; the paths are relative to them.
        images: template of the images, see :mod:`fedseg.datasets.templates`.
        labels: template of the label maps, with fields of ``images``.
    """
    maps = find_files(roots[1], labels)
    image_of: dict[str, str] = {}
    alone = []
    for image, fields in find_files(roots[0], images).items():
        label = fill(labels, fields)
        if label not in maps:
            alone.append(image)
        elif label in image_of:
            raise DataError(
                f"{roots[0]}: {image_of[label]} and {image} belong to one label map: remove one."
            )
        else:
            image_of[label] = image
    samples = [(image, label) for label, image in image_of.items()]
    return Pairs(samples, alone, [label for label in maps if label not in image_of])


def check_files(
    samples: Sequence[Sample],
    roots: tuple[Path, Path],
    data_root: Path,
    findings: Findings,
    published: tuple[int, int] | None = None,
) -> None:
    """Raise DataError for pairs that are missing, unreadable, cut short or of two sizes.

    Args:
        roots: of images and of labels, in ``data_root``.
        published: width and height; where images have other_sizes, a sentence is printed.
    """
    paths = {str(roots[0] / image) for image, _ in samples}
    paths |= {str(roots[1] / label) for _, label in samples}
    missing = paths - existing_files(paths)
    findings.add(f"of {len(paths)} files missing", sorted(missing))
    findings.raise_any()

    def inspect(sample: Sample) -> tuple[str, str] | tuple[int, int]:
        headers = []
        for root, path in zip(roots, sample, strict=True):
            try:
                headers.append(read_header(root / path))
            except OSError:
                return "unreadable or truncated files", path
        image, label = headers
        if image.size != label.size:
            return "labels of another size than their image", sample[1]
        if label.mode not in ("L", "P"):
            return "label maps that are not 8-bit and single-channel", sample[1]
        return image.size

    sizes = Counter()
    for result in in_threads(inspect, samples, "checking files"):
        if isinstance(result[0], str):
            findings.add(result[0], [result[1]])
        else:
            sizes[result] += 1
    findings.raise_any()
    other_sizes = Counter({size: count for size, count in sizes.items() if size != published})
    if published is not None and other_sizes and not is_synthetic(data_root):
        width, height = other_sizes.most_common(1)[0][0]
        print(
            f"{other_sizes.total()} of {sizes.total()} images are not "
            f"{published[0]}x{published[1]}, as they are published (most of them are "
            f"{width}x{height}): results are not comparable with published ones."
        )


def read_header(path: str | Path) -> Image.Image:
    """An image file as Pillow opens it, closed again: its size, format and mode.

    OSError: the file is no image, or a PNG or JPEG without its end marker.
    """
    try:
        with Image.open(path) as header:
            pass
    except (ValueError, Image.DecompressionBombError) as error:
        raise OSError(str(error)) from error
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 1024))
        if END_MARKERS.get(header.format, b"") not in file.read():
            raise OSError("no end marker")
    return header
