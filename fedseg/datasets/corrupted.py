"""CIFAR-10-C and CIFAR-100-C: a test set under 19 corruptions at 5 severities.

The layout is that of the official files (Hendrycks and Dietterich, ICLR 2019): ``<corruption>.npy``
holds the whole test set five times, uint8 [5 N, H, W, C], severity 1 first, and ``labels.npy`` the
labels [5 N] of every such file.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import MinLen
from pydantic import BaseModel

from fedseg.config.arguments import STRICT, read_model
from fedseg.datasets.arrays import PreparedFolder, load_array
from fedseg.errors import DataError, MissingDataError
from fedseg.files import read_json
from fedseg.names import CORRUPTIONS, FOLDER
from fedseg.registry import DATASETS

SEVERITIES = (1, 2, 3, 4, 5)
Severity = Literal[1, 2, 3, 4, 5]
Corruption = Literal[CORRUPTIONS]
LABELS = "labels.npy"
RECORD = "made.json"
"""Lists the files that were generated here rather than downloaded, and their source images."""

TOOL = "fedseg prepare cifar_c"


class Record(BaseModel):
    """The part of ``made.json`` that is read."""

    model_config = STRICT
    files: dict[str, str]  # name -> SHA-256
    test_sha256: str | None = None


class CorruptedImages(PreparedFolder):
    """Corrupted test images, read from memory-mapped files.

    Samples are ordered by corruption (official order), then severity, then index in the test set.

    Args:
        data_root: the prepared folder with the original test set; it names the classes.
        folder: where the files are, in ``data_root``.
        corruptions: which; None for all 19.
        severities: which of 1 to 5; None for all.

    Attributes:
        groups: (corruption, severity) of each consecutive ``group_size`` samples.
        group_size: number of images in a group, N.
        generated: the corruptions among these that were generated here, not downloaded.
    """

    def __init__(
        self,
        data_root: str | Path,
        folder: str = FOLDER,
        corruptions: Annotated[Sequence[Corruption], MinLen(1)] | Corruption | None = None,
        severities: Annotated[Sequence[Severity], MinLen(1)] | Severity | None = None,
    ) -> None:
        root, names = Path(data_root), chosen_corruptions(corruptions)
        asked = [severities] if isinstance(severities, int) else severities
        levels = [level for level in SEVERITIES if asked is None or level in asked]
        index = self._read_index(root)
        place, test = root / folder, index["splits"]["test"]
        option = f" --folder {shlex.quote(folder)}" if folder != FOLDER else ""
        tool = f"{TOOL} {shlex.quote(str(root))}{option}"
        fix = f"put the official files there, or make them with {tool}"
        missing = [name for name in names if not (place / f"{name}.npy").is_file()]
        if missing == names:  # no mistake, whereas some missing files are one
            raise MissingDataError(f"{place}: has no corrupted images: {fix}")
        missing += ["labels"] * (not (place / LABELS).is_file())
        if missing:
            raise DataError(f"{place}: {', '.join(missing)} missing: {fix}")
        labels, record = read_labels(place / LABELS, fix), read_record(place)
        files = [
            read_corruption(place / f"{n}.npy", len(labels), test["shape"], fix) for n in names
        ]
        self.group_size = len(labels) // len(SEVERITIES)
        self.groups = [(name, level) for name in names for level in levels]
        first = [(level - 1) * self.group_size for level in levels]
        super().__init__(
            StackedFiles(files, first, self.group_size),
            np.tile(labels[: self.group_size], len(self.groups)),
            index["classes"],
            index.get("coarse_labels"),
            where=place,
        )
        clean = load_array(root / "test_labels.npy", fix)
        same = clean.dtype.kind in "iu" and np.array_equal(labels[: self.group_size], clean)
        other = self.group_size == test["images"] and not same
        if other or record.get("test_sha256", test["sha256"]) != test["sha256"]:
            raise DataError(
                f"{place}: was made from other test images than {root} has: delete it, then {fix}"
            )
        self.data_root = str(root)
        made = record.get("files", {})
        self.generated = tuple(name for name in names if f"{name}.npy" in made)


@DATASETS.register_module()
class CIFAR10CDataset(CorruptedImages):
    """CIFAR-10-C: 32x32 RGB, 10 classes. Arguments: see :class:`CorruptedImages`."""

    shape, num_classes = (32, 32, 3), 10


@DATASETS.register_module()
class CIFAR100CDataset(CorruptedImages):
    """CIFAR-100-C: 32x32 RGB, 100 classes. Arguments: see :class:`CorruptedImages`."""

    shape, num_classes = (32, 32, 3), 100


class StackedFiles:
    """Parts of several files as one array, uint8 [files * parts * length, H, W, C].

    Indexing copies what it reads; the rest of the files stays on disk.

    Args:
        files: memory-mapped arrays [*, H, W, C].
        first: where each part begins, the same in every file.
        length: of a part.
    """

    def __init__(self, files: Sequence[np.ndarray], first: Sequence[int], length: int) -> None:
        self.files = files
        self._parts = [(file, start) for file in files for start in first]
        self._length = length
        self.shape = (len(self._parts) * length, *files[0].shape[1:])
        self.dtype = files[0].dtype
        self.ndim = len(self.shape)
        self._indices = np.arange(len(self))

    @property
    def nbytes(self) -> int:
        """Bytes of all parts together."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        indices = self._indices[key]  # NumPy's rules for integers, slices, masks and arrays
        out = np.empty((*indices.shape, *self.shape[1:]), self.dtype)
        part, row = np.divmod(indices, self._length)
        for number in np.unique(part):
            file, start = self._parts[number]
            here = part == number
            out[here] = file[row[here] + start]
        return out


def chosen_corruptions(asked: Sequence[str] | str | None) -> list[str]:
    """Names in the official order; None for all 19."""
    asked = [asked] if isinstance(asked, str) else asked
    return [name for name in CORRUPTIONS if asked is None or name in asked]


def read_labels(path: Path, fix: str) -> np.ndarray:
    """The labels of every corruption file, ``labels.npy``: int64 [5 N], five times the same."""
    labels, count = load_array(path, fix), len(SEVERITIES)
    sound = (
        labels.ndim == 1 and labels.dtype.kind in "iu" and len(labels) and not len(labels) % count
    )
    if not sound or (labels.reshape(count, -1) != labels[: len(labels) // count]).any():
        raise DataError(
            f"{path}: labels must be integers [5 N], the same for {count} severities, not "
            f"{labels.dtype} {list(labels.shape)}: {fix}"
        )
    return np.array(labels, np.int64)


def read_corruption(path: Path, length: int, shape: Sequence[int], fix: str) -> np.ndarray:
    """A corruption's images, memory-mapped: uint8 [length, *shape]."""
    images = load_array(path, fix)
    if images.dtype != np.uint8 or images.shape != (length, *shape):
        raise DataError(
            f"{path}: images must be uint8 {[length, *shape]}, not {images.dtype} "
            f"{list(images.shape)}: {fix}"
        )
    return images


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``made.json``, which lists the generated files; empty if there is none.

    With a damaged one, generated files could pass for official ones.
    """
    path = folder / RECORD
    if not os.path.lexists(path):
        return {}
    fix = f"restore it, or delete all of {folder} but official files and run {TOOL} again"
    record = read_json(path, fix)
    read_model(Record, record, path, fix)
    return record
