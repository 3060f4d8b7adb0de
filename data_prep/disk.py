"""Images and label maps on disk, checked without decoding them, and a report of what is wrong."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from fedseg.errors import DataError

from .parallel import in_threads

SHOWN = 5
END_MARKERS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
Sample = tuple[str, str]  # image and label map, relative to their roots


class Findings:
    """Everything wrong with a data set, collected so that one error reports it all.

    Its message begins with ``subject``, what was checked, and ends with ``fix``, what to do.
    """

    def __init__(self, subject: str, fix: str) -> None:
        self.subject, self.fix = subject, fix
        self._items: dict[str, list[str]] = {}

    def add(self, kind: str, items: Iterable[str]) -> None:
        """Note items of one kind, for example ``"images without a label"``."""
        found = list(items)
        if found:
            self._items.setdefault(kind, []).extend(found)

    def raise_any(self) -> None:
        """Raise DataError with the whole report if anything was noted."""
        lines = [f"{self.subject}:"]
        for kind, items in self._items.items():
            more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
            lines.append(f"  {len(items)} {kind}: {', '.join(items[:SHOWN])}{more}")
        if self._items:
            raise DataError("\n".join([*lines, self.fix]))


def find_pairs(
    roots: Sequence[Path],
    folders: Sequence[str],
    suffixes: Sequence[str | tuple[str, ...]],
    findings: Findings,
    count: int | None = None,
) -> list[Sample]:
    """Pairs (image, label) of equal names, sorted by name; what has no partner is noted.

    Args:
        roots: of images and of labels; the pairs are relative to them.
        folders: below the roots.
        suffixes: what follows the name that an image and its label share, or several of them.
        count: how many pairs there must be; None: not checked.
    """
    images, labels = (
        {
            p.name.removesuffix(end): f"{folder}/{p.name}"
            for end in ((suffix,) if isinstance(suffix, str) else suffix)
            for p in (root / folder).glob(f"*{end}")
        }
        for root, folder, suffix in zip(roots, folders, suffixes, strict=True)
    )
    findings.add("images without a label", (images[k] for k in sorted(set(images) - set(labels))))
    findings.add("labels without an image", (labels[k] for k in sorted(set(labels) - set(images))))
    names = sorted(set(images) & set(labels))
    if count not in (None, len(names)):
        place = f"{folders[0]} ({len(names)} instead of {count})"
        findings.add("folders with another number of pairs", [place])
    return [(images[name], labels[name]) for name in names]


def check_headers(
    samples: Sequence[Sample], image_root: Path, label_root: Path, findings: Findings
) -> None:
    """Note pairs that are unreadable, cut short or of two sizes; DataError if anything is noted."""

    def fault(sample: Sample) -> tuple[str, str] | None:
        sizes = []
        for path, root in zip(sample, (image_root, label_root), strict=True):
            try:
                sizes.append(read_header(root / path)[0])
            except (OSError, Image.DecompressionBombError):
                return "unreadable or truncated files", path
        if sizes[0] != sizes[1]:
            return "labels of another size than their image", sample[1]
        return None

    for found in in_threads(fault, samples, "checking files"):
        if found is not None:
            findings.add(found[0], [found[1]])
    findings.raise_any()


def read_header(path: str | Path) -> tuple[tuple[int, int], str | None]:
    """(width, height) and format of an image file.

    Raises:
        OSError: the file is no image, or a PNG or JPEG without its end marker.
    """
    with Image.open(path) as image:
        size, kind = image.size, image.format
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 1024))
        if END_MARKERS.get(kind, b"") not in file.read():
            raise OSError("no end marker")
    return size, kind
