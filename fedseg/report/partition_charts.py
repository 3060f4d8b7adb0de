"""How samples are partitioned among clients: statistics, and a heat map of classes by client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedseg.partition import check_clients
from fedseg.report.drawing import COLORS, new_figure, plain_axes, save_figure

NAMED = 110  # classes or clients up to which each has its name at the axis; IDDA has 105 domains
MOST_ROWS, MOST_COLUMNS = 500, 1000  # cells of the picture; beyond, neighbors share one
PLURAL = {"class": "classes", "domain": "domains"}
# without the palest part of the map: a share of one sample must differ from none
SHADES = LinearSegmentedColormap.from_list("shares", colormaps["YlGnBu"](np.linspace(0.2, 1)))


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


def show_partition(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str], path: Path
) -> None:
    """Print a partition's statistics and draw it to a PNG, both titled by the file's name.

    Args:
        clients, labels: as of :func:`partition_statistics`.
        classes: names of the classes, in order of their ids.
        path: the PNG.
    """
    found = partition_statistics(clients, labels, len(classes))
    print(
        f"{path.stem}: {found.in_words()}; {len(classes):,} classes in all, {found.unused:,} "
        "samples unused; mean total-variation distance to the whole data set "
        f"{found.total_variation:.3f}"
    )
    names = list(clients)
    draw_mixes(found.counts, found.sizes, names, classes, path, path.stem, found.in_words())


# ---------------------------------------------------------------- pictures


def draw_mixes(
    counts: np.ndarray,
    sizes: np.ndarray,
    clients: Sequence[str],
    classes: Sequence[str],
    path: Path,
    title: str,
    subtitle: str,
    kind: str = "class",
    unit: str = "samples",
    tests: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Heat map of the share of each class (rows) in each client (columns), and sizes; a PNG.

    Columns are in order of the client's largest class, which shows skew as a diagonal; a class that
    the client does not have is white.

    Args:
        counts: what each client has of each class, int [clients, classes]; each has something.
        sizes: samples of each client, int [clients].
        clients: their ids. classes: names of the rows.
        path, title, subtitle: of the picture.
        kind: what a row is: ``"class"`` or ``"domain"``.
        unit: what ``counts`` counts.
        tests: test set -> what it has of each class, int [classes]; columns of their own, on the
            right.
    """
    shares = counts / counts.sum(axis=1, keepdims=True)
    order = order_of(shares)
    # 0.115 inch a row is the least for names that can be read
    height = min(max(2.4, 0.115 * len(classes), 0.24 * min(len(classes), 14)), 12)
    figure = new_figure(13, height + 2.6)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    grid = figure.add_gridspec(
        2,
        1 + bool(tests),
        height_ratios=[height, 1.3],
        width_ratios=[22, max(1.6, 0.9 * len(tests))] if tests else None,
    )
    upper = figure.add_subplot(grid[0, 0])
    lower = figure.add_subplot(grid[1, 0], sharex=upper)
    upper.tick_params(axis="x", labelbottom=False)
    mixes = {name: row / max(row.sum(), 1) for name, row in (tests or {}).items()}
    most = max([shares.max(), *(mix.max() for mix in mixes.values())])
    image = draw_cells(upper, shares[order].T, classes, most, kind)
    upper.set_title(subtitle, fontsize=10)
    maps = [upper]
    if mixes:
        maps.append(figure.add_subplot(grid[0, 1], sharey=upper))
        draw_cells(maps[1], np.stack(list(mixes.values())).T, classes, most, kind)
        maps[1].set_title("test sets", fontsize=10)
        maps[1].set_ylabel("")
        maps[1].tick_params(axis="both", labelleft=False, labelbottom=False)
        below = figure.add_subplot(grid[1, 1], sharex=maps[1])
        below.set_axis_off()
        for number, name in enumerate(mixes):
            text = below.text(number + 0.5, 1, name, rotation=90, va="top", ha="center", fontsize=9)
            text.set_in_layout(False)  # it may reach down beside the clients' names
    whose = "samples" if unit == "samples" and mixes else f"client's {unit}"
    add_scale(figure, image, maps, f"share of the {whose}")
    _draw_sizes(lower, sizes[order])
    if len(clients) <= NAMED:
        names = [clients[i] for i in order]
        lower.set_xticks(np.arange(len(names)) + 0.5, names)
        small = len(names) > 30 or sum(map(len, names)) > 120
        lower.tick_params(axis="x", labelsize=6.5 if small else 9, rotation=90 if small else 0)
    lower.set_xlabel(f"clients, in order of their largest {kind}")
    return save_figure(figure, path)


def order_of(shares: np.ndarray) -> np.ndarray:
    """Clients in order of their largest class, those with most of it first; from [clients, K]."""
    return np.lexsort((-shares.max(axis=1), shares.argmax(axis=1)))


def draw_cells(
    axes: Any, shares: np.ndarray, classes: Sequence[str], most: float, kind: str = "class"
) -> Any:
    """A heat map of shares [classes, clients] from 0 to ``most``; what is 0 is white.

    Returns:
        What :func:`add_scale` takes.
    """
    rows, columns = shares.shape
    cells = _pool(_pool(shares, MOST_ROWS), MOST_COLUMNS, axis=1)
    image = axes.imshow(
        np.where(cells > 0, cells, np.nan),
        aspect="auto",
        interpolation="nearest",
        cmap=SHADES,
        norm=PowerNorm(0.5, vmin=0, vmax=most),
        extent=(0, columns, rows, 0),
    )
    # a line between the classes, and between clients where there is room
    for y in range(1, rows if rows <= NAMED else 0):
        axes.axhline(y, color="0.93", linewidth=0.5)
    for x in range(1, columns if columns <= NAMED else 0):
        axes.axvline(x, color="0.93", linewidth=0.5)
    if rows <= NAMED:
        axes.set_yticks(np.arange(rows) + 0.5, classes, fontsize=9 if rows <= 30 else 6.5)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(f"{kind} id")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", bottom=False)
    axes.spines[:].set_color("0.6")
    return image


def _pool(values: np.ndarray, most: int, axis: int = 0) -> np.ndarray:
    """At most ``most`` cells along an axis, each the maximum of neighbors: no cell is lost."""
    length = values.shape[axis]
    if length <= most:
        return values
    starts = np.unique(np.arange(most) * length // most)
    return np.maximum.reduceat(values, starts, axis=axis)


def add_scale(figure: Figure, image: Any, axes: Any, label: str) -> None:
    """The scale of a heat map, beside its axes."""
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.02, aspect=60)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    bar.set_label(label)
    bar.outline.set_visible(False)


def _draw_sizes(axes: Any, sizes: np.ndarray) -> None:
    axes.stairs(sizes, np.arange(len(sizes) + 1), fill=True, color=COLORS[0])
    axes.set_ylabel("samples")
    axes.set_xlim(0, len(sizes))
    axes.set_ylim(0, sizes.max() * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    plain_axes(axes, grid="y")
