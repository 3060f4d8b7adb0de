"""Files: written atomically, so that a reader meets the old content or the new; JSON, checksums."""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from fedseg.errors import DataError, ResourceError

TEMPORARY = ".tmp"  # suffix of a file that is still being written


def make_folder(folder: str | Path) -> None:
    """Make a folder; ResourceError below a file, or where only the system makes some (/proc)."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (FileNotFoundError, NotADirectoryError) as error:
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
        path: its missing folders are made.
        mode: ``"w"`` for UTF-8 text (line endings as written), ``"wb"`` for bytes.
        sync: wait until content and rename are on the disk, so that a power loss spares them.
    """
    path = Path(path)
    make_folder(path.parent)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(f"{path}: is a pipe or a device: name a file")  # which would be replaced
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


def write_text(path: str | Path, text: str, sync: bool = False) -> None:
    """Write a text file atomically; see :func:`atomic_writer`."""
    with atomic_writer(path, sync=sync) as file:
        file.write(text)


def read_json(path: str | Path, fix: str = "write it again") -> Any:
    """The content of a JSON file.

    Args:
        fix: what to do about a bad one, for the message.

    Raises:
        DataError: it cannot be read, or is not JSON, which has no NaN and no infinity.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): {fix}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not readable as JSON ({error}): {fix}") from error


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
