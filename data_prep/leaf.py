"""FEMNIST and Shakespeare by user, in the files of LEAF (json) and TensorFlow Federated (HDF5).

LEAF (Caldas et al., 2018): ``{train,test}/*.json`` with ``num_samples`` and ``user_data``: user ->
``x``, gray values 0..1 of 28x28 pixels or 80 characters, and ``y``, a class or the next character.
HDF5: ``examples/<user>/{pixels,label}``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError, ResourceError
from fedseg.files import read_json

from .description import ImageSet, Labeled, Part

PATTERNS = ("{}/*.json", "fed_emnist_{}.h5")
MOST = 10**5  # samples of a user in HDF5: its header may declare any number
PIXELS = ((784,), (28, 28))  # shapes of a sample
UNKNOWN = 255  # number of a character that is no class


class LeafFiles:
    """The files of a data set, in a folder or in ``data`` below it."""

    def __init__(self, published: ImageSet) -> None:
        self.published = published
        self.is_text = published.shape[:2] != (28, 28)
        self._numbers = np.full(256, UNKNOWN, np.uint8)  # of characters
        if self.is_text:
            self._numbers[[ord(c) for c in published.classes]] = range(len(published.classes))

    def find(self, folder: Path) -> Path | None:
        """The folder with the files of both splits; None if there is none."""
        for place in (folder, folder / "data"):
            for pattern in PATTERNS[: 1 + (not self.is_text)]:
                if all(any(place.glob(pattern.format(split))) for split in SPLITS):
                    return place
        return None

    def read(self, source: Path) -> Labeled:
        """Read the files, users in their order."""
        place = self.find(source)
        if place is None:
            raise DataError(f"{source}: holds no {self.published.source}")
        pattern = next(p for p in PATTERNS if any(place.glob(p.format("train"))))
        read = _read_json if pattern.endswith(".json") else _read_hdf5
        parts = {}
        for split in SPLITS:
            users, images, labels, seen = [], [], [], {}
            for file in sorted(place.glob(pattern.format(split))):
                for user, x, y in read(file):
                    if user in seen:
                        raise DataError(f"{file}: user {user!r} is in {seen[user]}, too: keep one")
                    seen[user] = file
                    try:
                        data = self._images(x), self._labels(y)
                        if len(data[0]) != len(data[1]):
                            raise ValueError(f"{len(data[0])} samples have {len(data[1])} labels")
                    except (TypeError, ValueError, OverflowError) as error:
                        raise DataError(f"{file}: user {user!r}: {error}: make it again") from error
                    images.append(data[0])
                    labels.append(data[1])
                    users += [user] * len(data[0])
            if not users:
                raise DataError(f"{place}: {split}: has no sample: make it again")
            parts[split] = Part(np.concatenate(images), np.concatenate(labels), users)
        return Labeled(parts, pattern.format("{train,test}"))

    def _images(self, x: Any) -> np.ndarray:
        if self.is_text:
            length = self.published.shape[0]
            if not all(isinstance(text, str) and len(text) == length for text in x):
                raise ValueError(f"its x must be texts of {length} characters")
            return self._number(x).reshape(-1, *self.published.shape)
        values = np.asarray(x)
        if len(values) and (values.dtype.kind not in "fiu" or values.shape[1:] not in PIXELS):
            raise ValueError("its x must be numbers, 28x28 of each sample")
        values = values.astype(np.float64).reshape(-1, *self.published.shape)
        if not ((values >= 0) & (values <= 1)).all():  # NaN is neither
            raise ValueError("its x must be gray values from 0 to 1")
        return np.rint(255 * values).astype(np.uint8)

    def _labels(self, y: Any) -> np.ndarray:
        if self.is_text:
            if not isinstance(y, list) or any(not isinstance(c, str) or len(c) != 1 for c in y):
                raise ValueError("its y must be characters")
            return self._number(y).astype(np.int64)
        values = np.asarray(y)
        if len(values) and (values.ndim != 1 or values.dtype.kind not in "iu"):
            raise ValueError("its y must be whole numbers")
        return values.astype(np.int64)

    def _number(self, texts: Any) -> np.ndarray:
        """The number of every character."""
        numbers = self._numbers[np.frombuffer("".join(texts).encode("latin-1"), np.uint8)]
        if (numbers == UNKNOWN).any():
            raise ValueError("it has characters that are no classes")
        return numbers


def _read_json(file: Path) -> Iterator[tuple[str, Any, Any]]:
    content = read_json(file)
    try:
        counts = dict(zip(content["users"], content["num_samples"], strict=True))
        if not counts.keys() == content["user_data"].keys() or len(counts) < len(content["users"]):
            raise ValueError("users are not those of user_data, each once")
        for user, data in content["user_data"].items():
            if counts[user] != len(data["x"]):
                raise ValueError(f"user {user!r} has {len(data['x'])} samples, not {counts[user]}")
            yield user, data["x"], data["y"]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{file}: is no file of LEAF ({error}): make it again") from error


def _read_hdf5(file: Path) -> Iterator[tuple[str, Any, Any]]:
    try:
        import h5py
    except ImportError as error:
        raise ResourceError(f"{file}: needs h5py: pip install 'fedseg[hdf5]'") from error
    try:
        with h5py.File(file) as content:
            for user, data in content["examples"].items():
                x, y = data["pixels"], data["label"]  # of any size: nothing is read yet
                if x.shape[1:] != (28, 28) or x.shape[:1] != y.shape or len(x) > MOST:
                    raise ValueError(f"user {user!r} has shapes {x.shape} and {y.shape}")
                if x.dtype.kind not in "fiu" or y.dtype.kind not in "iu":
                    raise ValueError(f"user {user!r} has types {x.dtype} and {y.dtype}")
                yield user, x[()], y[()]
    except (LookupError, OSError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise DataError(f"{file}: cannot be read as HDF5 ({error}): get it again") from error
