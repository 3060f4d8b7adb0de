"""Random partitions of a data set that is nothing but labels."""

from typing import Any

import numpy as np

from fedseg.partition import check_clients
from fedseg.registry import PARTITIONS, build

Clients = dict[str, np.ndarray]


class Labeled:
    """A data set as far as a partition sees it."""

    def __init__(self, labels: Any, coarse_labels: Any = None) -> None:
        self.labels = labels
        self.coarse_labels = coarse_labels

    def __len__(self) -> int:
        return 4 if self.labels is None else len(self.labels)


def balanced(classes: int, samples: int) -> Labeled:
    """Classes in turn; two neighbours have a coarse label."""
    return Labeled(np.tile(np.arange(classes), samples // classes), np.arange(classes) // 2)


def split(dataset: Any, kind: str, **options: Any) -> Clients:
    return build(PARTITIONS, {"type": kind, **options}, "partition")(dataset)


def counts(clients: Clients, dataset: Labeled) -> np.ndarray:
    """Images of each class [clients, classes]."""
    labels = np.asarray(dataset.labels)
    return np.stack([np.bincount(labels[i], minlength=labels.max() + 1) for i in clients.values()])


def check_split(clients: Clients, dataset: Any, number: int, equal: bool = True) -> None:
    """Every sample exactly once, ids and order, and equal sizes."""
    assert list(clients) == [str(i) for i in range(number)]
    check_clients(clients, len(dataset))
    assert all(i.dtype == np.int64 and (np.diff(i) > 0).all() for i in clients.values())
    held = np.concatenate(list(clients.values()))
    assert np.array_equal(np.sort(held), np.arange(len(dataset)))
    sizes = [len(i) for i in clients.values()]
    assert not equal or max(sizes) - min(sizes) <= 1


def same(one: Clients, other: Clients) -> bool:
    return all(np.array_equal(one[k], other[k]) for k in one)
