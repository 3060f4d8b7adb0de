"""Checkpoints: atomic to write, checked to read, trusted for tensors and plain values only.

A checkpoint is written to a temporary file, synced and renamed, with its SHA-256 in a file beside
it. Finding the newest one skips, with a warning, any that is truncated or damaged or whose client
states are not all there.
"""

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedseg.errors import DataError, lacks_memory
from fedseg.files import sha256, sync_folder, write_text
from fedseg.runner.state_store import save_tensors

PATTERN = re.compile(r"round_(\d{6,})\.pth")


def checkpoint_path(folder: Path, round_: int) -> Path:
    """Where the checkpoint of a round lies."""
    return folder / f"round_{round_:06d}.pth"


def _digest_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _write_digests(path: Path, digests: list[str]) -> None:
    write_text(_digest_path(path), "".join(f"{digest}\n" for digest in digests), sync=True)


def _read_digests(path: Path) -> list[str]:
    target = _digest_path(path)
    return target.read_text(encoding="ascii", errors="replace").split() if target.is_file() else []


def save_checkpoint(path: Path, payload: dict[str, Any]) -> None:
    """Write a checkpoint atomically: a kill at any moment leaves the old one or the new one."""
    temporary = path.with_name(path.name + ".part")
    digest = save_tensors(temporary, payload)
    # until the rename is done, the file may be either the old or the new one
    digests = _read_digests(path) if path.is_file() else []
    old = [d for d in digests if d == sha256(path)]
    _write_digests(path, [*old, digest])
    os.replace(temporary, path)
    sync_folder(path.parent)
    if old:
        _write_digests(path, [digest])


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, with ``weights_only=True``.

    Raises:
        DataError: missing, truncated, damaged, or holding anything but tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint")
    if _digest_path(path).is_file() and sha256(path) not in _read_digests(path):
        raise DataError(
            f"{path}: damaged or truncated, its checksum does not match {_digest_path(path).name}"
        )
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if lacks_memory(error):  # or an older one would be taken
            raise
        raise DataError(
            f"{path}: cannot be read as a checkpoint of tensors and plain values "
            f"({type(error).__name__})"
        ) from error
    if not isinstance(payload, dict) or "state_dict" not in payload:
        raise DataError(f"{path}: is no fedseg checkpoint, it has no 'state_dict'")
    return payload


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(round, path) of every checkpoint in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = ((PATTERN.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def latest_checkpoint(
    folder: Path, verify: Callable[[dict[str, Any]], None]
) -> tuple[Path, dict[str, Any]] | None:
    """The newest intact checkpoint of a folder and its content, or None.

    Args:
        folder: where the checkpoints lie.
        verify: raises :class:`DataError` if what the checkpoint refers to is damaged.
    """
    for _, path in reversed(checkpoints(folder)):
        try:
            payload = load_checkpoint(path)
            verify(payload)
        except DataError as error:
            warnings.warn(f"{error}; going back to the checkpoint before it", stacklevel=2)
            continue
        return path, payload
    return None


def remove_checkpoint(path: Path) -> None:
    """Delete a checkpoint and its checksum."""
    path.unlink(missing_ok=True)
    _digest_path(path).unlink(missing_ok=True)


def latest_checkpoint_message(folder: Path) -> str:
    """A sentence that names the newest checkpoint, for error messages."""
    found = checkpoints(folder)
    if not found:
        return "There is no checkpoint yet"
    return f"The latest checkpoint is {found[-1][1]} (round {found[-1][0]})"
