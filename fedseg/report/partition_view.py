"""The samples of each client, in numbers and as tables on the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.markup import escape

from fedseg.cli import wide_console
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.partition import check_clients
from fedseg.runs.tables import TextTable

PLURAL = {"class": "classes", "domain": "domains"}


@dataclass(frozen=True)
class PartitionStatistics:
    """Sizes of the clients, and how their class distributions differ."""

    counts: np.ndarray  # samples of each client in each class, int64 [clients, classes]
    unused: int  # number of samples that no client holds
    # mean over the clients of the total-variation distance 1/2 sum_c |p_kc - p_c| between the
    # client's distribution and that of the whole data set, from 0 (all alike) to nearly 1
    total_variation: float

    @property
    def sizes(self) -> np.ndarray:
        """Samples of each client, int64 [clients]."""
        return self.counts.sum(axis=1)

    @property
    def classes_per_client(self) -> np.ndarray:
        """Number of classes of each client, int64 [clients]."""
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
    """Count what each client has, of indices of samples by client and class ids of samples."""
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
    """A split to be looked at."""

    name: str  # short, for files
    title: str  # what it is, in words
    clients: Mapping[str, np.ndarray]  # client id -> indices of samples
    statistics: PartitionStatistics  # of rows instead of classes; of one row without a kind
    kind: str | None = None  # of a sample's label: "class" or "domain"; None: it is not known
    rows: tuple[str, ...] = ()  # names of the classes or domains, those of test sets included
    tests: Mapping[str, int] = field(default_factory=dict)  # test set -> number of its samples
    test_counts: Mapping[str, np.ndarray] = field(default_factory=dict)  # in each row, int [rows]
    notes: tuple[str, ...] = ()  # what could not be looked at, in words
    dataset: SegmentationDataset | None = None  # of the clients, where it has label maps


def print_views(views: Sequence[View], console: Console | None = None) -> None:
    """Print a column for each split, and a row for each test set."""
    console = console or wide_console()
    console.print(_splits_table(views).to_rich())
    console.print(
        "per client: least / median / most; distance: mean total-variation distance of a client's "
        "distribution to the whole data set's, from 0 (all alike) to nearly 1",
        style="dim",
    )
    if any(view.tests for view in views):
        console.print()
        console.print(_tests_table(views).to_rich())
    for view in views:
        for note in view.notes:
            console.print(escape(note), highlight=False, soft_wrap=True)


def _splits_table(views: Sequence[View]) -> TextTable:
    columns = {view.name: _describe(view) for view in views}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    order = [*(name for name in names if name != "distance"), "distance"]
    rows = [(name, *(c.get(name, "") for c in columns.values())) for name in order]
    return TextTable("splits", ("", *columns), rows, right=range(1, 1 + len(columns)))


def _describe(view: View) -> dict[str, str]:
    statistics = view.statistics
    column = {
        "clients": f"{len(view.clients):,}",
        "samples": f"{statistics.sizes.sum():,}",
        "unused": f"{statistics.unused:,}",
        "samples per client": spread(statistics.sizes),
    }
    if view.kind:
        plural = PLURAL[view.kind]
        column[plural] = f"{statistics.counts.any(axis=0).sum():,}"
        column[f"{plural} per client"] = spread(statistics.classes_per_client)
        column["distance"] = f"{statistics.total_variation:.3f}"
    return column


def _tests_table(views: Sequence[View]) -> TextTable:
    rows = []
    for view in views:
        held = view.statistics.counts.any(axis=0)
        for name, samples in view.tests.items():
            of = also = ""
            if name in view.test_counts and view.kind:
                there = view.test_counts[name] > 0
                of, also = f"{there.sum():,} {PLURAL[view.kind]}", f"{(there & held).sum():,}"
            rows.append((view.name, name, f"{samples:,}", of, also))
    head = ("split", "test set", "images", "of", "also held by clients")
    return TextTable("test sets", head, rows, right=(2, 3, 4))
