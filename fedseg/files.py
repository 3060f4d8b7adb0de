"""Atomic files: a reader meets the old content or the new, never a part, also after a crash."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

TEMPORARY = ".tmp"  # suffix of a file that is still being written


@contextmanager
def atomic_writer(path: str | Path, mode: str = "w", sync: bool = False) -> Iterator[IO[Any]]:
    """Open a temporary file that takes the place of ``path`` when the block ends without an error.

    Args:
        path: the file; missing folders are made.
        mode: ``"w"`` for UTF-8 text (line endings as written), ``"wb"`` for bytes.
        sync: wait until content and rename are on the disk, so that a power loss spares them.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(temporary, mode, **text) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write does not say where
        raise
    if sync:
        sync_folder(path.parent)


def write_text(path: str | Path, text: str, sync: bool = False) -> None:
    """Write a text file atomically; see :func:`atomic_writer`."""
    with atomic_writer(path, sync=sync) as file:
        file.write(text)


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
