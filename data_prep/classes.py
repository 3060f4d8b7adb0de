"""The file that names the classes of label maps: one a line, in the order of their ids."""

import re
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

from fedseg.checks import shown
from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import DataError

FORM = "NAME, or NAME,R,G,B"
# a name begins with a letter, digit or underscore; signs that separate cells are no part of it
LINE = re.compile(
    r"(?P<name>\w[^,:;=|\"<>\[\]{}#\x00-\x1f\x7f-\x9f]*)"
    r"(?:,\s*(?P<r>\d{1,3})\s*,\s*(?P<g>\d{1,3})\s*,\s*(?P<b>\d{1,3}))?"
)
COLOR_WITHOUT_COMMAS = re.compile(r".*\s\d{1,3}\s+\d{1,3}\s+\d{1,3}")
NO_CLASS = "__ignore__"  # labelme's first line


def read_classes(path: Path) -> tuple[list[str], list[list[int]]]:
    """Names by id and, where the lines have them, colors [r, g, b] by id.

    Args:
        path: a text file with ``NAME`` or ``NAME,R,G,B`` a line; blank lines and labelme's
            ``__ignore__`` do not count.
    """
    names: list[str] = []
    colors: list[list[int]] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        line = line.strip()
        if line in ("", NO_CLASS):
            continue
        name, color = _read_line(path, number, line)
        if name in names:
            raise DataError(f"{path}: line {number}: names {name!r} twice: name each class once.")
        names.append(name)
        if color is not None:
            colors.append(color)
        if len(colors) not in (0, len(names)):
            raise DataError(f"{path}: line {number}: give each class a color, or none.")
    if not 1 <= len(names) <= IGNORE:
        raise DataError(f"{path}: must name 1 to {IGNORE} classes, not {len(names)}.")
    return names, colors


def _read_line(path: Path, number: int, line: str) -> tuple[str, list[int] | None]:
    match = LINE.fullmatch(line)
    if match is None or COLOR_WITHOUT_COMMAS.fullmatch(match["name"]):
        raise DataError(f"{path}: line {number}: must be {FORM}, not {shown(line, 60)}.")
    name = normalize("NFC", match["name"].rstrip())
    if match["r"] is None:
        return name, None
    color = [int(match[channel]) for channel in "rgb"]
    if max(color) > 255:
        raise DataError(f"{path}: line {number}: R, G and B must be 0 to 255, not {max(color)}.")
    return name, color


def classes_text(path: Path, names: Sequence[str], colors: Sequence[Sequence[int]]) -> str:
    """The text of a file of classes, which :func:`read_classes` has to understand."""
    lines = []
    for number, (name, color) in enumerate(zip(names, colors, strict=True), start=1):
        line = f"{name},{color[0]},{color[1]},{color[2]}"
        _read_line(path, number, line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; DataError if it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({error})") from error
