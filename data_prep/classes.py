"""Class files as tools write them: names, and perhaps ids and colors, as text, CSV or JSON."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import DataError
from fedseg.files import read_bytes, read_json
from fedseg.names import CONTROL

from .disk import SHOWN

LINE = re.compile(  # a name, perhaps an id before or after it, perhaps a color (CVAT: and parts)
    r"(?:(\d{1,9})[\s,:;=|.)>-]+(?=\D))?(.+?)(?:(?:[\s,:;=|]|->?\s)+(\d{1,9}))??"
    r"(?:[\s,:;]+(\d{1,9})[\s,;]+(\d{1,9})[\s,;]+(\d{1,9})(?:[\s,;]+255|:.*)?)?"
)
CELL = re.compile(  # no part of a name
    r"^[\"'{<-]|^[(\[][\"'\d]|^\d+\s+\d|^\d+\s*([,;:=|)\t]|\.\D)|[,;:=|\t]\s*\d+[])]?$"
    r"|\s#[0-9a-fA-F]{6}$"
)
# of columns and keys, in lower case without "_" and the like; the first that is there has the names
NAMES = ("name", "names", "classname", "labelname", "class", "classes", "label", "labels")
NAMES += ("category", "categories", "categoryname")
ID = re.compile("(class|label|category|train|raw|pixel)?(id|idx|index|value)")
CHANNELS = (("r", "g", "b"), ("red", "green", "blue"))
COLORS = ("color", "colour", "rgb", "colorrgb")
LONGEST = 500  # characters of a line
COLUMNS = "a list of names, or of objects with a name, or CSV with every line as its header"
Entry = tuple[Any, Any, Any]  # id or None, name, color or None


def read_classes(path: Path, first: int = 0) -> tuple[list[str], list[list[int]]]:
    """Names by id and, where all of them have one, colors [r, g, b], from a text or JSON file.

    Text: one name a line, perhaps with a color (``tree 30 120 40``, ``tree:30,120,40::``) and its
    id (``0: sky``, ``sky,0``), or columns below a header as in CSV files; lines with # are
    comments, labelme's ``__ignore__`` is no class. JSON: a list of names or of objects with
    ``name``, ``id`` and ``color``. Ids count from ``first``.
    """
    if path.suffix.lower() == ".json":
        content = read_json(path)
        content = content.get("labels") if isinstance(content, dict) else content
        content = content if isinstance(content, list) and content else [None]
        named = [{"name": one} if isinstance(one, str) else one for one in content]
        entries = _read_columns(path, named)
    else:
        entries = _read_lines(path)
    entries = [entry for entry in entries if entry[1] != "__ignore__"]
    ids = [number for number, _, _ in entries if number is not None]
    if ids and sorted(ids) != [*range(first, first + len(entries))]:
        raise DataError(
            f"{path}: numbers classes from {min(ids)} to {max(ids)}, but the ids of {len(entries)} "
            f"classes in label maps are {first} to {first + len(entries) - 1}, each once: write "
            f"names alone, one for each id{' (or see --reduce-zero-label)' * (not first)}"
        )
    entries = sorted(entries, key=lambda entry: entry[0]) if ids else entries
    names = [normalize("NFC", name) for _, name, _ in entries]
    colors = [color for _, _, color in entries if color]
    if not names or len(set(names)) < len(names) or len(names) > IGNORE - first:
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise DataError(
            f"{path}: must name 1 to {IGNORE - first} classes, each once, not {len(names)}"
            + f" with {', '.join(twice[:SHOWN])} twice" * bool(twice)
        )
    if odd := [name for name in names if CONTROL.search(name)]:
        raise DataError(f"{path}: {odd[0]!r} has control characters: save it as UTF-8 text")
    if len(colors) not in (0, len(names)) or not all(
        isinstance(c, list) and len(c) == 3 and all(type(v) is int and v in range(256) for v in c)
        for c in colors
    ):
        raise DataError(f"{path}: colors must be three numbers 0 to 255, of each class or of none")
    return names, colors


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; DataError if it is none."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        how = f"({error.strerror})" if isinstance(error, OSError) else f"as UTF-8 text ({error})"
        raise DataError(f"{path}: cannot be read {how}") from error


def _read_lines(path: Path) -> list[Entry]:
    lines = [line.strip().rstrip(",;:") for line in read_text(path).splitlines()]
    lines = [line for line in lines if line and line[0] != "#"]
    cells = [_key(cell) for cell in re.split("[,;\t]", lines[0] if lines else "")]
    is_csv = path.suffix.lower() in (".csv", ".tsv")
    if {*cells} & {*NAMES} and (is_csv or len(cells) > 1):
        delimiter = next((d for d in ",;\t" if d in lines[0]), ",")
        try:
            rows = csv.DictReader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
            return _read_columns(path, [*rows])
        except csv.Error as error:
            raise DataError(f"{path}: cannot be read as CSV ({error})") from error
    lines = [line.replace('"', "").strip() for line in lines] if is_csv else lines
    lines = [line for line in lines if line not in ("", "__ignore__")]
    if long := [line for line in lines if len(line) > LONGEST]:
        told = f"has a line of {len(long[0])} characters, {long[0][:20]!r}..."
        raise DataError(f"{path}: {told}: write a name a line")
    matches = [LINE.fullmatch(line) for line in lines]

    def name_of(match: re.Match[str], at: int | None) -> str:
        end = match.end(2) if at == 3 else max(match.end(2), match.end(3))
        return match.string[match.start(2) if at == 1 else 0 : end]

    def are_ids(at: int) -> bool:  # numbers that tell equal names apart are parts of the names
        of = ({match[at] for match in matches} - {None}, {name_of(match, at) for match in matches})
        return all(len(different) == len(matches) for different in of)

    at = next(filter(are_ids, (1, 3)), None)
    entries = []
    for match in matches:
        name = name_of(match, at).strip()
        if CELL.search(name) or (len(matches) == 1 and re.search(r"[,;]\s*\S", name)):
            raise DataError(
                f"{path}: {match.string!r} is not understood: write a name a line, or id,name or "
                "id,name,r,g,b with an id of its own for each, without quotes and brackets"
            )
        color = [int(value) for value in match.groups()[3:]] if match[4] else None
        entries.append((int(match[at]) if at else None, name, color))
    return entries


def _key(text: Any) -> str:
    return re.sub(r"[\W_]+", "", str(text)).lower()


def _read_columns(path: Path, rows: Sequence[Any]) -> list[Entry]:
    """Entries of a header's columns, or of JSON's objects."""
    entries, others = [], defaultdict(list)
    for row in rows:
        row = {_key(key): row[key] for key in row} if isinstance(row, dict) else {}
        named = sorted((key for key in NAMES if key in row), key=lambda key: _is_id(row[key]))
        ids = [key for key in row if ID.fullmatch(key) or (key in named[1:] and _is_id(row[key]))]
        name = row[named[0]] if named else None
        if not isinstance(name, str) or not name.strip() or "none" in row:
            raise DataError(f"{path}: must be {COLUMNS}")
        if len(ids) > 1 or not all(_is_id(row[key]) for key in ids):
            told = ", ".join(f"{key} {row[key]!r}" for key in ids)
            raise DataError(f"{path}: {told}: give one number as the id of {name!r}")
        color = next(([row[c] for c in three] for three in CHANNELS if {*three} <= {*row}), None)
        color = color or next((row[key] for key in COLORS if row.get(key)), None)
        if isinstance(color, str):
            code = re.fullmatch(r"\s*#([0-9a-fA-F]{6})\s*", color)
            color = [*bytes.fromhex(code[1])] if code else re.findall(r"[^\s,;()\[\]]+", color)
        if isinstance(color, list):
            color = [int(value) if _is_id(value) else value for value in color]
        entries.append((int(row[ids[0]]) if ids else None, name.strip(), color))
        for key in () if ids else row.keys() - {named[0], *CHANNELS[0], *CHANNELS[1], *COLORS}:
            others[key] += [int(row[key])] if _is_id(row[key]) else []
    for key, numbers in others.items():  # not the order, which needs no column
        distinct = len({*numbers}) == len(rows) > 1 and max(numbers) <= IGNORE
        if distinct and numbers != [*range(len(rows))]:
            fault = f"column {key!r} has other numbers than the order"
            raise DataError(f"{path}: {fault}: call it id, or remove it")
    return entries


def _is_id(value: Any) -> bool:
    return re.fullmatch(r"\s*[0-9]{1,9}\s*", str(value)) is not None
