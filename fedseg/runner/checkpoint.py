"""Checkpoints: atomic to write, checked to read, trusted for tensors and plain values only.

A checkpoint is written to a temporary file, synced and renamed. It holds a SHA-256 of its content,
so that a copy of it, of whatever name, can be checked too. Finding the newest one skips any that is
damaged or whose client states or history are not all there.
"""

import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, PositiveInt, model_validator
from torch import Tensor

from fedseg.config.schema import STRICT, read_model
from fedseg.core.forward import map_tensors
from fedseg.errors import DataError, lacks_memory
from fedseg.runner.state_store import save_tensors

PATTERN = re.compile(r"round_(\d{6,})\.pth")
DIGEST = "content_sha256"
WEIGHTS = ("state_dict", "averaged_state_dict", "client_statistics")


class Facts(BaseModel):
    """The plain values of a checkpoint that are read without the run: it may be a stranger's."""

    model_config = STRICT

    round: int = 0
    history: Sequence[int] = ()  # checksums of its lines
    client_sizes: Mapping[str, PositiveInt] = {}
    domain_clients: Mapping[str, Sequence[str]] = {}
    meta: Mapping[str, Any] = {}
    stores: Mapping[str, Any] = {}
    state_dict: Mapping[str, Any]
    averaged_state_dict: Mapping[str, Any] = {}
    client_statistics: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _check_domains(self) -> "Facts":
        for domain, clients in self.domain_clients.items():
            if not self.client_sizes.keys() >= set(clients):
                raise ValueError(f"domain_clients: {domain}: must be some of client_sizes")
        return self


def checkpoint_path(folder: Path, round_: int) -> Path:
    """Where the checkpoint of a round lies."""
    return folder / f"round_{round_:06d}.pth"


def run_folder(checkpoint: Path) -> Path:
    """The work dir that a checkpoint belongs to."""
    folder = checkpoint.parent
    return folder.parent if folder.name == "checkpoints" else folder


def _content_digest(payload: Mapping[str, Any]) -> str:
    """SHA-256 of names, values and tensors, which does not depend on how a file lays them out."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            digest.update(repr((value.dtype, tuple(value.shape))).encode())
            flat = value.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy())
        elif isinstance(value, Mapping):
            digest.update(b"{")
            for key, one in value.items():
                digest.update(repr(key).encode())
                add(one)
            digest.update(b"}")
        elif isinstance(value, list | tuple):
            digest.update(b"[")
            for one in value:
                add(one)
            digest.update(b"]")
        elif isinstance(value, set | frozenset):
            digest.update(repr(sorted(map(repr, value))).encode())
        else:
            digest.update(f"{value!r},".encode())

    add({key: value for key, value in payload.items() if key != DIGEST})
    return digest.hexdigest()


def _check_stored(size: int, tensor: Tensor) -> Tensor:
    """A tensor without storage of its own for each value may be larger than any memory."""
    if tensor.numel() * tensor.element_size() > size:
        raise ValueError(f"a tensor of {tuple(tensor.shape)} in a file of {size} bytes")
    return tensor


def _with_storage(tensor: Tensor) -> Tensor:
    """An expanded tensor as one that has its values, see :func:`_check_stored`."""
    expanded = tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
    return tensor.contiguous() if expanded else tensor


def save_checkpoint(path: Path, payload: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically: a kill at any moment leaves the old one or the new one."""
    payload = map_tensors(_with_storage, payload)
    save_tensors(path, {**payload, DIGEST: _content_digest(payload)})


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, with ``weights_only=True``.

    Raises:
        DataError: missing, truncated, damaged, with weights that are not finite, or holding
            anything but tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint")
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True)
        map_tensors(partial(_check_stored, path.stat().st_size), payload)
        digest = _content_digest(payload) if isinstance(payload, dict) else None
    except Exception as error:
        if lacks_memory(error):  # or an older one would be taken
            raise
        raise DataError(
            f"{path}: cannot be read as a checkpoint of tensors and plain values "
            f"({type(error).__name__}): it is truncated, damaged, or something else"
        ) from error
    if not isinstance(payload, dict) or "state_dict" not in payload:
        raise DataError(f"{path}: is no fedseg checkpoint, it has no 'state_dict'")
    if payload.get(DIGEST, digest) != digest:
        raise DataError(f"{path}: is damaged or was changed, its checksum does not match")
    read_model(Facts, {k: v for k, v in payload.items() if k in Facts.model_fields}, path)
    for key in WEIGHTS:
        check_weights(payload.get(key, {}), f"{path}: {key}")
    return payload


def check_like(found: Any, expected: Any, where: str) -> None:
    """Raise DataError unless a value has the types, names and shapes of another.

    Args:
        found: of a checkpoint; a dict may have more names.
        expected: its like; None stands for anything, an empty dict or list for any.
    """
    kinds = (Tensor, Mapping, list, Real)
    kind = next((kind for kind in kinds if isinstance(expected, kind)), object)
    if not isinstance(found, kind):
        raise DataError(f"{where}: has the wrong type, {type(found).__name__}")
    if kind is Mapping:
        for key, like in expected.items():
            if key not in found:
                raise DataError(f"{where}: {key}: is missing")
            check_like(found[key], like, f"{where}: {key}")
    elif kind is Tensor:
        sides = [f"{tuple(one.shape)} of {one.dtype}" for one in (found, expected)]
        if sides[0] != sides[1]:
            raise DataError(f"{where}: is {sides[0]}, expected {sides[1]}")
    elif kind is list and expected:
        if len(found) != len(expected):
            raise DataError(f"{where}: has {len(found)} entries, expected {len(expected)}")
        for number, (one, like) in enumerate(zip(found, expected, strict=True)):
            check_like(one, like, f"{where}[{number}]")


def check_weights(weights: Mapping[str, Any], where: str) -> None:
    """Raise DataError unless all are tensors, by names, and finite."""
    for name, value in weights.items():
        if isinstance(value, Mapping):
            check_weights(value, f"{where}: {name}")
        elif not isinstance(value, Tensor) or not isinstance(name, str):
            raise DataError(f"{where}: {name}: is a {type(value).__name__}, no tensor")
        elif not torch.isfinite(value).all():
            raise DataError(f"{where}: {name}: is not finite; use an earlier checkpoint")


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(round, path) of every checkpoint in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = ((PATTERN.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def latest_checkpoint(
    folder: Path, restore: Callable[[Path, dict[str, Any]], None]
) -> tuple[Path, dict[str, Any]] | None:
    """The newest intact checkpoint of a folder and its content; None if there is none at all.

    Args:
        restore: takes path and content; raises :class:`DataError` if the content does not fit the
            run, or what it refers to is damaged.

    Raises:
        DataError: there are some, and none is intact.
    """
    errors: list[DataError] = []
    for round_, path in reversed(checkpoints(folder)):
        try:
            payload = load_checkpoint(path)
            if payload.get("round") != round_:
                raise DataError(f"{path}: round: is {payload.get('round')!r}, not {round_}")
            restore(path, payload)
        except DataError as error:
            errors.append(error)
            continue
        for error in errors:
            warnings.warn(f"{error}; going back to {path.name}", stacklevel=2)
        return path, payload
    if errors:
        raise DataError(
            f"{errors[0]}; no older checkpoint in {folder} can be resumed either: without --resume "
            "the run starts anew, and what is there is moved aside"
        )
    return None


def proved_rounds(history: Iterable[dict[str, Any]]) -> set[int]:
    """The rounds after which the model was good: of the round after them most updates counted.

    A model may be lost and still be finite; that shows in the updates of those who start from it.
    """
    proved = set()
    for line in history:
        losses = [participant["loss"] for participant in line["participants"]]
        if 2 * losses.count(None) < len(losses):
            proved.add(line["round"] - 1)
    return proved


def good_checkpoint_message(folder: Path, history: list[dict[str, Any]]) -> str:
    """Which checkpoints there are when a round has failed, and which is good, for its message."""
    found = checkpoints(folder)
    proved = proved_rounds(history)
    good = next((entry for entry in reversed(found) if entry[0] in proved), None)
    if not found:
        return "There is no checkpoint yet"
    newest = f"{found[-1][1]} (round {found[-1][0]})"
    if good is None:
        return f"No checkpoint is known to be good; the newest is {newest}"
    if good == found[-1]:
        return f"--resume goes on from the newest checkpoint, {newest}, which is good"
    return (
        f"The newest checkpoint, {newest}, is not known to be good: --resume goes on from it. The "
        f"last good one is {good[1]} (round {good[0]}): delete the newer ones to go on from it"
    )
