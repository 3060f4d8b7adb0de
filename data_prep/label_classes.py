"""Which classes each label map shows, needed by the class-imbalance rule."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fedseg.datasets.images import read_label

from .disk import Sample
from .parallel import in_threads

Presence = Callable[[Sequence[Sample]], np.ndarray]  # samples -> bool [samples, classes]


def presence(label_root: Path, label_ids: Mapping[int, int]) -> Presence:
    """Whether a class has at least one pixel in a sample's label map; each map is read once.

    ``label_ids``: raw id -> train id, 255 = ignore. The function that is returned raises DataError
    if a label map cannot be read.
    """
    classes = max(train for train in label_ids.values() if train != 255) + 1
    table = np.full(256, 255)
    table[list(label_ids)] = list(label_ids.values())
    known: dict[str, np.ndarray] = {}

    def read(label: str) -> np.ndarray:
        counts = np.bincount(read_label(str(label_root / label)).ravel(), minlength=256)
        shown = np.zeros(256, dtype=bool)
        shown[table[counts > 0]] = True
        return shown[:classes]

    def present(samples: Sequence[Sample]) -> np.ndarray:
        unread = [label for _, label in samples if label not in known]
        found = in_threads(read, unread, "reading label maps")
        known.update(zip(unread, found, strict=True))
        return np.stack([known[label] for _, label in samples])

    return present
