"""Which client holds what, in numbers: what tables and pictures of a split show."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.partition import check_clients

PLURAL = {"class": "classes", "domain": "domains"}


@dataclass(frozen=True)
class PartitionStatistics:
    """Sizes of the clients, and how their class distributions differ.

    Attributes:
        counts: samples of each client in each class, int64 [clients, classes].
        unused: number of samples that no client holds.
        total_variation: mean over the clients of the total-variation distance
            ``1/2 sum_c |p_kc - p_c|`` between the client's distribution and that of the whole data
            set, from 0 (all alike) to nearly 1.
    """

    counts: np.ndarray
    unused: int
    total_variation: float

    @property
    def sizes(self) -> np.ndarray:
        """Samples of each client, int64 [clients]."""
        return self.counts.sum(axis=1)

    @property
    def classes_per_client(self) -> np.ndarray:
        """How many classes each client has, int64 [clients]."""
        return (self.counts > 0).sum(axis=1)

    def in_words(self, kind: str = "class") -> str:
        """Number and sizes of the clients and their classes (or domains), for a line of text."""
        return (
            f"{len(self.counts):,} clients; samples per client: {spread(self.sizes)}; "
            f"{PLURAL[kind]} per client: {spread(self.classes_per_client)}"
        )


def partition_statistics(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, num_classes: int
) -> PartitionStatistics:
    """Count what each client has.

    Args:
        clients: client id -> indices into the data set, as a partition gives them.
        labels: the class id of every sample of the data set, int [N].
        num_classes: classes of the data set, also those that do not occur.

    Raises:
        ConfigError: the clients are none, empty or share a sample, or an index is out of range.
    """
    clients = check_clients(clients, len(labels))
    counts = np.stack([np.bincount(labels[i], minlength=num_classes) for i in clients.values()])
    sizes = counts.sum(axis=1)
    whole = np.bincount(labels, minlength=num_classes) / len(labels)
    distances = np.abs(counts / sizes[:, None] - whole).sum(axis=1) / 2
    return PartitionStatistics(counts, len(labels) - int(sizes.sum()), float(distances.mean()))


def spread(values: np.ndarray) -> str:
    """Least / median / most, or the one value there is."""
    low, high = values.min(), values.max()
    return f"{low:,}" if low == high else f"{low:,} / {np.median(values):,.10g} / {high:,}"


@dataclass(frozen=True)
class View:
    """A split to be looked at.

    Attributes:
        name: short, for files. title: what it is, in words.
        clients: client id -> indices of samples.
        statistics: of rows instead of classes; of one row without a kind.
        kind: what a sample's label is: ``"class"``, ``"domain"``, or None if only the number of
            samples is known.
        rows: names of the classes or domains, also those that only test sets have.
        tests: test set -> number of its samples.
        test_counts: test set -> its samples in each row, int [rows]; of those that have rows.
        notes: what could not be looked at, in words.
        dataset: of the clients, where label maps can be read from it.
    """

    name: str
    title: str
    clients: Mapping[str, np.ndarray]
    statistics: PartitionStatistics
    kind: str | None = None
    rows: tuple[str, ...] = ()
    tests: Mapping[str, int] = field(default_factory=dict)
    test_counts: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dataset: SegmentationDataset | None = None
