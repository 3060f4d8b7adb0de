"""CIFAR-10-C and CIFAR-100-C: a test set under 19 corruptions at 5 severities.

The layout is that of the official files (Hendrycks and Dietterich, ICLR 2019): ``<corruption>.npy``
holds N test images five times, uint8 [5 N, H, W, C], severity 1 first, and ``labels.npy`` the
labels [5 N] of every such file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import MinLen

from fedseg.datasets.arrays import PreparedFolder, load_array
from fedseg.errors import DataError, MissingDataError
from fedseg.names import CORRUPTIONS, FOLDER
from fedseg.registry import DATASETS

SEVERITIES = (1, 2, 3, 4, 5)
LABELS = "labels.npy"
FIX = "put the official files there (docs/data_sets.md, CIFAR-C)"

Severity = Literal[1, 2, 3, 4, 5]
Corruption = Literal[CORRUPTIONS]


class CorruptedImages(PreparedFolder):
    """Corrupted test images, read from memory-mapped files.

    Samples are ordered by corruption (official order), then severity, then as in the files.

    Args:
        data_root: a prepared folder; it names the classes.
        folder: where the files are, in ``data_root``.
        corruptions: which; None for all 19.
        severities: which of 1 to 5; None for all.

    Attributes:
        groups: (corruption, severity) of each consecutive ``group_size`` samples.
        group_size: number of images in a group, N.
    """

    def __init__(
        self,
        data_root: str | Path,
        folder: str = FOLDER,
        corruptions: Annotated[Sequence[Corruption], MinLen(1)] | Corruption | None = None,
        severities: Annotated[Sequence[Severity], MinLen(1)] | Severity | None = None,
    ) -> None:
        names = _choose(CORRUPTIONS, corruptions)
        levels = _choose(SEVERITIES, severities)
        index = self._read_index(Path(data_root))
        place = Path(data_root, folder)
        missing = [name for name in names if not (place / f"{name}.npy").is_file()]
        if missing == names:  # an optional test set that is not there; a part of one is a mistake
            raise MissingDataError(f"{place}: has no corrupted images: {FIX}")
        if missing:
            raise DataError(f"{place}: {', '.join(missing)} missing: {FIX}")
        labels = _read_labels(place / LABELS)
        self.group_size = len(labels) // len(SEVERITIES)
        self.groups = [(name, level) for name in names for level in levels]
        shape = (len(labels), *index["splits"]["test"]["shape"])
        super().__init__(
            StackedFiles(
                [_read_images(place / f"{name}.npy", shape) for name in names],
                [(level - 1) * self.group_size for level in levels],
                self.group_size,
            ),
            np.tile(labels[: self.group_size], len(self.groups)),
            index["classes"],
            index.get("coarse_labels"),
            where=place,
        )
        self.data_root = str(data_root)


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
        starts: where each part begins, the same in every file.
        length: of a part.
    """

    def __init__(self, files: Sequence[np.ndarray], starts: Sequence[int], length: int) -> None:
        self._parts = [(file, start) for file in files for start in starts]
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
        images = np.empty((*indices.shape, *self.shape[1:]), self.dtype)
        parts, rows = np.divmod(indices, self._length)
        for part in np.unique(parts):
            file, start = self._parts[part]
            chosen = parts == part
            images[chosen] = file[start + rows[chosen]]
        return images


def _choose(known: Sequence[Any], names: Sequence[Any] | str | int | None) -> list[Any]:
    """Choose names in their official order; None for all."""
    if names is None:
        return list(known)
    if isinstance(names, str | int):
        return [names]
    return [name for name in known if name in names]


def _read_labels(path: Path) -> np.ndarray:
    """Read the labels of every corruption file: integers [5 N], five times the same."""
    if not path.is_file():
        raise DataError(f"{path}: is missing: {FIX}")
    labels = load_array(path, FIX)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) % len(SEVERITIES):
        raise DataError(
            f"{path}: labels must be integers [5 N], not {labels.dtype} {list(labels.shape)}: {FIX}"
        )
    by_severity = labels.reshape(len(SEVERITIES), -1)
    if (by_severity != by_severity[0]).any():
        raise DataError(f"{path}: labels must be the same for all 5 severities: {FIX}")
    return labels


def _read_images(path: Path, shape: Sequence[int]) -> np.ndarray:
    """Map a corruption's images, uint8 of this shape."""
    images = load_array(path, FIX, mmap_mode="r")
    if images.dtype != np.uint8 or images.shape != shape:
        raise DataError(
            f"{path}: images must be uint8 {list(shape)}, not {images.dtype} "
            f"{list(images.shape)}: {FIX}"
        )
    return images
