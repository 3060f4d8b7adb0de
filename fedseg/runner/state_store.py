"""State that outlives a round: tensors by key, committed with it, saved beside the checkpoint.

A client's dual variable or BatchNorm statistics must survive until the client is sampled again,
must not change when its update is rejected or the round fails, and must come back bit for bit
after a kill. So a write is staged first and becomes current only by :meth:`StateStore.commit`; on
disk every commit of a key is a file of its own, never overwritten, and a checkpoint holds the
index of the files that were current when it was made.
"""

import hashlib
import os
import re
from collections.abc import ItemsView, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fedseg.errors import DataError
from fedseg.files import atomic_writer, sha256, sync_folder

Tensors = dict[str, Tensor]
Index = dict[str, dict[str, str]]


def save_tensors(path: Path, payload: object) -> str:
    """``torch.save``, atomic and durable. Returns the file's SHA-256."""
    with atomic_writer(path, "wb", sync=True) as file:
        try:
            torch.save(payload, file)
        except RuntimeError as error:  # torch hides that the disk is full
            cause = error.__context__ if isinstance(error.__context__, OSError) else error
            raise cause from None
    return sha256(path)


def stage_file(folder: Path, key: str, tensors: Mapping[str, Tensor]) -> str:
    """Write new tensors of a key to where its store expects them, in whatever process.

    Returns the file's SHA-256, which :meth:`StateStore.stage` takes in the place of the tensors.
    """
    return save_tensors(folder / file_name(key, "staged"), _copied(tensors))


def _copied(tensors: Mapping[str, Tensor]) -> Tensors:
    return {n: t.detach().to("cpu", copy=True) for n, t in tensors.items()}


def file_name(key: str, version: str) -> str:
    """The name of the file of a key's tensors."""
    # the digest keeps two keys apart that become the same readable name
    tag = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', key)[:60]}-{tag}-{version}.pt"


def read_tensors(path: Path) -> Tensors:
    """The tensors of a file, memory-mapped."""
    return torch.load(path, weights_only=True, map_location="cpu", mmap=True)


class StoredTensors(Mapping):
    """The committed tensors of a key, read anew whenever they are asked for.

    It holds none of them, so that a list of them for many clients weighs nothing, whatever their
    states weigh. Pickled, it becomes a dict: of the tensors, or of what the file holds where the
    reader sees the store's folder, too.
    """

    def __init__(self, store: "StateStore", key: str) -> None:
        self._store, self._key = store, key

    def __getitem__(self, name: str) -> Tensor:
        return self._store.get(self._key)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.get(self._key))

    def __len__(self) -> int:
        return len(self._store.get(self._key))

    def items(self) -> ItemsView[str, Tensor]:
        return self._store.get(self._key).items()  # one look into a file, not one for each name

    def __reduce__(self) -> tuple[Any, ...]:
        path = self._store.path(self._key) if self._store.shared else None
        return (dict, (dict(self.items()),)) if path is None else (read_tensors, (path,))


class StateStore:
    """Tensors by key (a client's id, a slot of a window), versioned by round.

    Args:
        folder: where the files go.
        keep: ``"memory"`` holds everything in RAM and writes what changed when a checkpoint is
            made; ``"disk"`` writes at commit and memory-maps on demand, for states larger than
            RAM.
    """

    def __init__(self, folder: str | Path, keep: Literal["memory", "disk"] = "memory") -> None:
        self.folder = Path(folder)
        self.keep = keep
        self.shared = False  # whether other processes that get states see the folder, too
        self._staged: dict[str, Tensors | str] = {}  # on disk the checksum of the file
        self._memory: dict[str, Tensors] = {}
        self._files: Index = {}
        self._indexed: set[str] = set()  # files that an index refers to
        self._unsaved: dict[str, int] = {}

    def keys(self) -> list[str]:
        """Every committed key, sorted."""
        return sorted(self._memory.keys() | self._files.keys())

    def get(self, key: str) -> Tensors:
        """The committed tensors of a key (do not change them in place); empty if there are none."""
        if key in self._memory:
            return self._memory[key]
        path = self.path(key)
        return {} if path is None else read_tensors(path)

    def look_up(self, key: str) -> StoredTensors:
        """As :meth:`get`, but nothing is read before it is used."""
        return StoredTensors(self, key)

    def path(self, key: str) -> Path | None:
        """The file of a key's committed tensors, if they are on disk."""
        return self.folder / self._files[key]["file"] if key in self._files else None

    def stage(self, key: str, tensors: Tensors | str) -> None:
        """Remember new tensors of a key (copied to the CPU) until the round succeeds or fails.

        On disk also what :func:`stage_file` has written, by its checksum.
        """
        if isinstance(tensors, str):
            self._staged[key] = tensors
        elif self.keep == "memory":
            self._staged[key] = _copied(tensors)
        else:
            self._staged[key] = stage_file(self.folder, key, tensors)

    def discard(self, key: str | None = None) -> None:
        """Forget what was staged for a key (a rejected update), or for all (a failed round)."""
        for forgotten in list(self._staged) if key is None else [key]:
            self._staged.pop(forgotten, None)  # a file goes with the garbage

    def commit(self, round_: int) -> None:
        """Make everything staged current, as of this round.

        On disk, what it replaces is deleted at once if no checkpoint can refer to it: with many
        rounds between checkpoints the old versions would outgrow the states themselves.
        """
        if self.keep == "memory":
            self._memory |= self._staged
            self._unsaved |= dict.fromkeys(self._staged, round_)
        elif self._staged:
            for key, digest in self._staged.items():
                name = file_name(key, f"{round_:06d}")
                os.replace(self.folder / file_name(key, "staged"), self.folder / name)
                before = self._files.get(key, {}).get("file", name)
                self._files[key] = {"file": name, "sha256": digest}
                if before != name and before not in self._indexed:
                    (self.folder / before).unlink(missing_ok=True)
            sync_folder(self.folder)
        self._staged.clear()

    def delete(self, key: str) -> None:
        """Drop a key; its files go with the next :meth:`collect_garbage`."""
        self._memory.pop(key, None)
        self._files.pop(key, None)
        self._unsaved.pop(key, None)

    def state_dict(self) -> Index:
        """Write what is only in memory; returns the index that a checkpoint keeps."""
        for key, round_ in self._unsaved.items():
            name = file_name(key, f"{round_:06d}")
            digest = save_tensors(self.folder / name, self._memory[key])
            self._files[key] = {"file": name, "sha256": digest}
        self._unsaved.clear()
        self._indexed |= {entry["file"] for entry in self._files.values()}
        return {key: dict(entry) for key, entry in self._files.items()}

    def verify(self, index: Index) -> None:
        """Raise :class:`DataError` unless every file of ``index`` is there, whole."""
        for key, entry in index.items():
            if not isinstance(entry, Mapping) or not isinstance(entry.get("file"), str):
                raise DataError(f"state of {key!r}: has no file, but {entry!r}")
            path = self.folder / entry["file"]
            if Path(entry["file"]).name != entry["file"]:
                raise DataError(f"state of {key!r}: file name {entry['file']!r} leaves its folder")
            if not path.is_file():
                raise DataError(f"{path}: missing (state of {key!r})")
            if sha256(path) != entry.get("sha256"):
                raise DataError(f"{path}: damaged, its checksum does not match (state of {key!r})")

    def load_state_dict(self, index: Index) -> None:
        """Return to the state that ``index`` describes (see :meth:`state_dict`)."""
        self.verify(index)
        self.discard()
        self._memory.clear()
        self._unsaved.clear()
        self._files = {key: dict(entry) for key, entry in index.items()}
        self._indexed = {entry["file"] for entry in index.values()}
        if self.keep == "memory":
            for key in self._files:
                self._memory[key] = {n: t.clone() for n, t in read_tensors(self.path(key)).items()}

    def collect_garbage(self, indexes: list[Index]) -> None:
        """Delete files that neither the current state nor any of ``indexes`` needs."""
        if not self.folder.is_dir():
            return
        needed = {e["file"] for index in [*indexes, self._files] for e in index.values()}
        for path in self.folder.glob("*.pt*"):
            if path.name not in needed:
                path.unlink()
        self._indexed &= needed
