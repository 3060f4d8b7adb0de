"""Images and label maps on disk, checked without decoding them, and a report of what is wrong."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from PIL import Image

from fedseg.datasets.arrays import is_synthetic
from fedseg.datasets.file_lists import existing_files, is_hidden, walk_files
from fedseg.datasets.scenes import find_label
from fedseg.errors import DataError

from .parallel import in_threads

SHOWN, MOST = 5, 20  # items of a line, lines
DRAWN = "drawn"  # below a root: label maps that were polygons
END_MARKERS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
Sample = tuple[str, str]  # image and label map, relative to their roots
Images = dict[str, list[Sample]]  # domain -> samples, by name


class Findings:
    """Everything wrong with ``subject``, so that one error reports it, and the ``fix``."""

    def __init__(self, subject: str, fix: str) -> None:
        self.subject, self.fix = subject, fix
        self._items: dict[tuple[str, str], list[str]] = {}  # by kind and reason

    def add(self, kind: str, items: Iterable[str]) -> None:
        """Note items of one kind, for example ``"images without a label"``.

        What follows the first colon of an item is told once for all that have it.
        """
        for item, colon, reason in (item.partition(": ") for item in items):
            self._items.setdefault((kind, colon + reason), []).append(item)

    def raise_any(self) -> None:
        """Raise DataError with the whole report if anything was noted."""
        lines = [
            f"  {len(items)} {kind}: {', '.join(items[:SHOWN])}{', ...' * (len(items) > SHOWN)}"
            + reason
            for (kind, reason), items in self._items.items()
        ]
        if len(lines) > MOST:
            lines[MOST:] = [f"  and {len(lines) - MOST} more lines"]
        if lines:
            raise DataError("\n".join([f"{self.subject}:", *lines, self.fix]))


def find_files(root: Path, hidden: bool = False) -> Iterator[str]:
    """Paths of the files below a root, without those that fedseg prepare writes."""
    for path in walk_files(root):
        if (hidden or not is_hidden(path)) and not path.startswith(("splits/", f"{DRAWN}/")):
            yield path


def print_skipped(root: Path, used: Collection[str], reason: str) -> None:
    """Print how many files below a root are not used, by their ending."""
    endings = Counter(
        "hidden" if is_hidden(path) else Path(path).suffix or "without ending"
        for path in find_files(root, hidden=True)
        if path not in used
    )
    if endings:
        listed = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
        print(f"  {endings.total()} files below {root} {reason}: {listed}")


def find_pairs(
    roots: Sequence[Path],
    folders: Sequence[str],
    suffixes: Sequence[str | tuple[str, ...]],
    findings: Findings,
) -> list[Sample]:
    """Pairs (image, label) of equal names, sorted by name; what has no partner is noted.

    Args:
        roots: of images and of labels; the pairs are relative to them.
        folders: below the roots.
        suffixes: what follows the name that an image and its label share, or several of them.
    """
    images, labels = (
        _by_stem(root, folder, (suffix,) if isinstance(suffix, str) else suffix, findings)
        for root, folder, suffix in zip(roots, folders, suffixes, strict=True)
    )
    named = f"images without a label <name>{suffixes[1]}"
    findings.add(named, (images[k] for k in sorted(set(images) - set(labels))))
    findings.add("labels without an image", (labels[k] for k in sorted(set(labels) - set(images))))
    names = sorted(set(images) & set(labels))
    return [(images[name], labels[name]) for name in names]


def _by_stem(
    root: Path, folder: str, suffixes: Sequence[str], findings: Findings
) -> dict[str, str]:
    place_of: dict[str, str] = {}
    for suffix in suffixes:
        for path in sorted((root / folder).glob(f"[!.]*{suffix}")):
            place, stem = f"{folder}/{path.name}", path.name.removesuffix(suffix)
            if place_of.get(stem, place) != place:
                findings.add("files of one name in two formats", [f"{place_of[stem]} and {place}"])
            place_of[stem] = place
    return place_of


def check_files(
    samples: Sequence[Sample],
    roots: tuple[Path, Path],
    data_root: Path,
    findings: Findings,
    published: tuple[int, int] | None = None,
) -> None:
    """Note pairs that are missing, unreadable, cut short or of two sizes.

    Args:
        roots: of images and of labels, in ``data_root``.
        published: width and height; where images have others, a sentence is printed.
    """
    places = {s: [find_label(str(r / p)) for r, p in zip(roots, s, strict=True)] for s in samples}
    paths = {path for pair in places.values() for path in pair}
    missing = paths - existing_files(paths)
    findings.add(f"of {len(paths)} files missing", sorted(missing))

    def inspect(sample: Sample) -> tuple[str, str] | tuple[int, int]:
        headers = []
        for name, path in zip(sample, places[sample], strict=True):
            try:
                headers.append(read_header(path))
            except OSError:
                return "unreadable or truncated files", name
        image, label = headers
        if image.size != label.size:
            return "labels of another size than their image", sample[1]
        if label.mode not in ("L", "P"):
            return "label maps that are not 8-bit and single-channel", sample[1]
        return image.size

    whole = [sample for sample in samples if missing.isdisjoint(places[sample])]
    sizes = Counter()
    for result in in_threads(inspect, whole, "checking files"):
        if isinstance(result[0], str):
            findings.add(result[0], [result[1]])
        else:
            sizes[result] += 1
    findings.raise_any()
    count, others = sizes.total(), {s: n for s, n in sizes.items() if s != published}
    if published is not None and others and not is_synthetic(data_root):
        most = "x".join(map(str, max(others, key=others.get)))
        print(
            f"{sum(others.values())} of {count} images are not {published[0]}x{published[1]}, as "
            f"they are published (most of them are {most}): results are not comparable with "
            "published ones."
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
