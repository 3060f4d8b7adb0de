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

    def download(self, root: Path) -> Path:
        """Nothing is downloaded: LEAF's scripts make the files."""
        raise OSError(f"--download is for CIFAR and MNIST, LEAF makes {self.published.source}")

    def read(self, source: Path) -> Labeled:
        """Read the files, users in their order."""
        place = self.find(source)
        if place is None:
            raise DataError(f"{source}: holds no {self.published.source}")
        pattern = next(p for p in PATTERNS if any(place.glob(p.format("train"))))
        read = _read_json if pattern.endswith(".json") else _read_hdf5
        parts = {}
        for split in SPLITS:
            users, images, labels = [], [], []
            for file in sorted(place.glob(pattern.format(split))):
                for user, x, y in read(file):
                    try:
                        own = self._images(x), self._number(y) if self.is_text else np.array(y)
                        if len(own[0]) != len(own[1]):
                            raise ValueError(f"{len(own[0])} samples have {len(own[1])} labels")
                    except (TypeError, ValueError, OverflowError) as error:
                        raise DataError(f"{file}: user {user!r}: {error}: make it again") from error
                    images.append(own[0])
                    labels.append(own[1])
                    users += [user] * len(own[0])
            parts[split] = Part(np.concatenate(images), np.concatenate(labels), users)
        return Labeled(parts, pattern.format("{train,test}"))

    def _images(self, x: Any) -> np.ndarray:
        if self.is_text:
            length = self.published.shape[0]
            if not all(isinstance(text, str) and len(text) == length for text in x):
                raise ValueError(f"its x must be texts of {length} characters")
            return self._number(x).reshape(-1, *self.published.shape)
        values = np.asarray(x, np.float64).reshape(-1, *self.published.shape)
        if not ((values >= 0) & (values <= 1)).all():  # NaN is neither
            raise ValueError("its x must be gray values from 0 to 1")
        return np.rint(255 * values).astype(np.uint8)

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
        for user, own in content["user_data"].items():
            if counts[user] != len(own["x"]):
                raise ValueError(f"user {user!r} has {len(own['x'])} samples, not {counts[user]}")
            yield user, own["x"], own["y"]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{file}: is no file of LEAF ({error}): make it again") from error


def _read_hdf5(file: Path) -> Iterator[tuple[str, Any, Any]]:
    try:
        import h5py
    except ImportError as error:
        raise ResourceError(f"{file}: needs h5py: pip install 'fedseg[hdf5]'") from error
    try:
        with h5py.File(file) as content:
            for user, own in content["examples"].items():
                yield user, own["pixels"][()], own["label"][()]
    except (LookupError, OSError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: cannot be read as HDF5 ({error}): get it again") from error
