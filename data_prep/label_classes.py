"""Which classes each label map shows, needed by the class-imbalance rule; read once and cached."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from data_prep.disk import Sample
from data_prep.parallel import in_threads
from fedseg.datasets.images import read_label
from fedseg.files import write_text

CACHE = "label_classes.json"
Presence = Callable[[Sequence[Sample]], np.ndarray]  # samples -> bool [samples, classes]


def presence(root: Path, label_root: str, label_ids: Mapping[int, int]) -> Presence:
    """:func:`classes_present` of a data root's samples."""
    cache = root / "splits" / CACHE
    return lambda samples: classes_present(
        root / label_root, [label for _, label in samples], label_ids, cache
    )


def classes_present(
    label_root: Path, labels: Sequence[str], label_ids: Mapping[int, int], cache: Path
) -> np.ndarray:
    """Whether a class has at least one pixel in a label map.

    Raw ids are kept in the file ``cache``, so that a second split of the same data set reads
    nothing; a label map is read again when its size or time has changed.

    Args:
        label_root: the folder that ``labels`` are relative to.
        label_ids: raw id -> train id, 255 = ignore.

    Returns:
        bool [labels, classes].

    Raises:
        DataError: a label map cannot be read.
    """
    known = _load(cache)
    stamps = {label: _stamp(label_root / label) for label in labels}
    unread = [label for label in labels if known.get(label, [None])[0] != stamps[label]]
    if unread:
        found = in_threads(partial(_raw_ids, label_root), unread, "reading label maps")
        known |= {label: [stamps[label], ids] for label, ids in zip(unread, found, strict=True)}
        write_text(cache, json.dumps(known, separators=(",", ":")))
    classes = max(train for train in label_ids.values() if train != 255) + 1
    table = np.full(256, 255)
    table[list(label_ids)] = list(label_ids.values())
    present = np.zeros((len(labels), 256), dtype=bool)
    for row, label in zip(present, labels, strict=True):
        row[table[known[label][1]]] = True
    return present[:, :classes]


def _raw_ids(label_root: Path, label: str) -> list[int]:
    pixels = read_label(str(label_root / label)).ravel()
    return np.flatnonzero(np.bincount(pixels, minlength=256)).tolist()


def _stamp(path: Path) -> str:
    state = os.stat(path)
    return f"{state.st_size}:{state.st_mtime_ns}"


def _load(cache: Path) -> dict[str, list]:
    try:
        return json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # absent or damaged: everything is read again
        return {}
