"""Files: written atomically, so that a reader meets the old content or the new; read with limits.

What is read whole may come from anybody: it must be a regular file of a bearable size.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from fedseg.errors import DataError, ResourceError
from fedseg.units import format_bytes

LARGEST = 2**29  # bytes of a file that is read whole
DEEPEST = 50  # lists and dicts within each other
TEMPORARY = ".tmp"  # suffix of a file that is still being written
# where a cell may begin, and what then makes a formula of it
FORMULA = re.compile(r"(^|[;\t\r\n])([\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r])")
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for its other end


def make_folder(folder: str | Path) -> None:
    """Make a folder; ResourceError below one that only the system can fill, such as /proc."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        raise ResourceError(f"{folder}: cannot create the folder: write elsewhere") from error


def packaged_path(path: str) -> Path | None:
    """The path itself; for ``package:NAME/FILE`` that of a file of an installed package.

    None if the package is not installed.
    """
    if not path.startswith("package:"):
        return Path(path)
    package, _, name = path.removeprefix("package:").partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0], name)


@contextmanager
def atomic_writer(path: str | Path, mode: str = "w", sync: bool = False) -> Iterator[IO[Any]]:
    """Open a temporary file that takes the place of ``path`` when the block ends without an error.

    The temporary file has a name that nobody knows before, and ``path`` is replaced if it is a
    link: in a folder from somewhere else, nothing leads a writer out of it.

    Args:
        path: a regular file, a link, or nothing yet; missing folders are made.
        mode: ``"w"`` for UTF-8 text (line endings as written), ``"wb"`` for bytes.
        sync: wait until content and rename are on the disk, so that a power loss spares them.
    """
    path = Path(path)
    make_folder(path.parent)
    if path.exists() and not path.is_symlink():
        _check_writable(path.stat(), path)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(temporary, mode.replace("w", "x"), **text) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        ours = isinstance(error, OSError) and error.filename in (None, temporary, str(temporary))
        if ours and error.errno == errno.ENOENT and path.parent.is_dir():
            raise ResourceError(f"{path}: cannot be created there: write elsewhere") from error
        if ours and error.errno is not None:
            error.filename = str(path)  # a write does not say where
        raise
    if sync:
        sync_folder(path.parent)


def remove_temporaries(folder: Path, pattern: str = "*") -> None:
    """Delete files of :func:`atomic_writer` that a kill has left of those that match a pattern."""
    for path in folder.glob(f"{pattern}.{'[0-9a-f]' * 8}{TEMPORARY}"):
        path.unlink(missing_ok=True)


def open_to_append(path: str | Path) -> IO[bytes]:
    """Open a file to add to its end; an error if it is a link, a pipe or a device."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | NO_WAIT | getattr(os, "O_NOFOLLOW", 0), 0o666)

    if os.path.lexists(path):
        _check_writable(os.lstat(path), path)
    return open(path, "ab", opener=opener)


def write_text(path: str | Path, text: str, sync: bool = False) -> None:
    """Write a text file atomically; see :func:`atomic_writer`.

    A ``.csv`` that is not ASCII begins with a byte order mark, without which Excel misreads it.
    """
    if Path(path).suffix == ".csv" and not text.isascii():
        text = f"\ufeff{text}"
    with atomic_writer(path, sync=sync) as file:
        file.write(text)


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file; text that a spreadsheet would compute is marked as text.

    Where a spreadsheet separates by semicolons, as in much of Europe, a cell is cut at each.
    """
    return FORMULA.sub(r"\1'\2", value) if isinstance(value, str) else value


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; OSError if it is too large, or none (a pipe would never end)."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | NO_WAIT)

    with open(path, "rb", opener=opener) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > LARGEST:
            fault = f"it has {format_bytes(status.st_size)}, more than {format_bytes(LARGEST)}"
            raise OSError(errno.EFBIG, fault, str(path))
        return file.read()


def _check_writable(status: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path}: is not a regular file (a link, a pipe or a device): remove it")


def read_json(path: str | Path, fix: str = "write it again", strict: bool = True) -> Any:
    """The content of a JSON file in which no key occurs twice in one object.

    Args:
        fix: what to do about a bad one, for the message.
        strict: also refuse NaN, infinity and text with half a character, which cannot be written;
            without it, they are the caller's to name.

    Raises:
        DataError: it cannot be read, is not JSON, is nested too deeply, or see ``strict``.
    """

    constant = _refuse if strict else float
    try:
        text = read_bytes(path).decode("utf-8-sig")
        content = parse_json(text, parse_constant=constant)
        if strict and re.search(r"\\ud[89a-f]", text, re.IGNORECASE):
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except (OSError, ValueError, RecursionError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: is not readable as JSON ({told}): {fix}") from error
    return content


def parse_json(text: str, **options: Any) -> Any:
    """Like :func:`json.loads`, but a key that occurs twice and deep nesting are ValueErrors."""
    content = json.loads(text, object_pairs_hook=_unique_keys, **options)
    if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return content


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):  # json.loads would keep the last
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return values


def _depth(text: str) -> int:
    """The depth of nested lists and dicts in valid JSON."""
    text = re.sub(r"\\.", "", text) if "\\" in text else text
    outside = "".join(text.split('"')[::2])  # of strings
    steps = {"[": 1, "{": 1, "]": -1, "}": -1}
    return max(accumulate(map(steps.get, re.findall(r"[][{}]", outside))), default=0)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where the system can sync folders."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: str | Path) -> str:
    """The file's SHA-256 as hexadecimal text."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def digest(content: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys; what is none counts as its text."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def own_path(folder: Path, name: str) -> Path:
    """The path of a file in a folder from anybody; DataError for a link that leads out of it."""
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise DataError(f"{path}: is a link that leads out of {folder}: remove it")
    return path


def own_folder(folder: Path, name: str) -> Path:
    """The same of a folder to write in, with no such link anywhere in it."""
    path = own_path(folder, name)
    for inner in path.rglob("*"):
        own_path(folder, str(inner.relative_to(folder)))
    return path
