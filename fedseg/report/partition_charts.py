"""How samples are partitioned among clients: statistics, and a heat map of classes by client."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich.console import Console

from fedseg.errors import DataError
from fedseg.partition import check_clients
from fedseg.report.drawing import COLORS, new_figure, plain_axes, save_figure

NAMED = 110  # classes or clients up to which each has its name at the axis; IDDA has 105 domains
MOST_ROWS, MOST_COLUMNS = 500, 1000  # cells of the picture; beyond, neighbors share one
PLURAL = {"class": "classes", "domain": "domains"}
# without the palest part of the map: a share of one sample must differ from none
SHADES = LinearSegmentedColormap.from_list("shares", colormaps["YlGnBu"](np.linspace(0.2, 1)))


def partition_statistics(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, num_classes: int
) -> dict[str, Any]:
    """Sizes of the clients, and how their class distributions differ.

    Args:
        clients: client id -> indices into the data set, as a partition gives them.
        labels: the class id of every sample of the data set, int [N].
        num_classes: classes of the data set, also those that do not occur.

    Returns:
        ``clients`` and ``classes``: their numbers; ``samples``: those that clients hold;
        ``unused``: those that no client holds; ``size``: of a client, and
        ``classes_per_client``, each ``{"min", "median", "mean", "max"}``;
        ``total_variation``: mean over the clients of the total-variation distance
        ``1/2 sum_c |p_kc - p_c|`` between the client's distribution and that of the whole data set,
        from 0 (all alike) to nearly 1; ``class_counts``: int64 [clients, classes].

    Raises:
        ConfigError: the clients are none, empty or share a sample, or an index is out of range.
        DataError: the labels are not class ids below ``num_classes``.
    """
    labels = _class_ids(labels, num_classes)
    clients = check_clients(clients, len(labels))
    counts = np.stack([np.bincount(labels[i], minlength=num_classes) for i in clients.values()])
    sizes = counts.sum(axis=1)
    whole = np.bincount(labels, minlength=num_classes) / len(labels)
    distances = np.abs(counts / sizes[:, None] - whole).sum(axis=1) / 2
    return {
        "clients": len(clients),
        "classes": num_classes,
        "samples": int(sizes.sum()),
        "unused": len(labels) - int(sizes.sum()),
        "size": _spread(sizes),
        "classes_per_client": _spread((counts > 0).sum(axis=1)),
        "total_variation": float(distances.mean()),
        "class_counts": counts,
    }


def _class_ids(labels: np.ndarray, num_classes: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels: must be integers of shape [N], not {labels.dtype} of shape {labels.shape}"
        )
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if wrong.size:
        raise DataError(f"labels: class id {wrong[0]} occurs, but there are {num_classes} classes")
    return labels


def _spread(values: np.ndarray) -> dict[str, float]:
    return {
        "min": int(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "max": int(values.max()),
    }


def print_statistics(
    statistics: Mapping[str, Any], title: str = "", console: Console | None = None
) -> None:
    """Print what :func:`partition_statistics` gives, without the counts.

    Args:
        statistics: of a partition.
        title: before it, for example the data set and the kind of partition.
        console: where to print; standard output by default.
    """
    text = f"{title}: {in_words(statistics)}" if title else in_words(statistics)
    text += (
        f"; {statistics['classes']:,} classes in all, {statistics['unused']:,} samples unused; "
        f"mean total-variation distance to the whole data set {statistics['total_variation']:.3f}"
    )
    (console or Console()).print(text, soft_wrap=True, highlight=False, markup=False)


def in_words(statistics: Mapping[str, Any], kind: str = "class") -> str:
    """Number and sizes of the clients and their classes (or domains), for a line of text."""
    return (
        f"{statistics['clients']:,} clients; samples per client: {spread(statistics['size'])}; "
        f"{PLURAL[kind]} per client: {spread(statistics['classes_per_client'])}"
    )


def spread(found: Mapping[str, float]) -> str:
    """Least / median / most, or the one value there is."""
    if found["min"] == found["max"]:
        return f"{found['min']:,}"
    return f"{found['min']:,} / {found['median']:,.10g} / {found['max']:,}"


# ---------------------------------------------------------------- pictures


def draw_partition(
    clients: Mapping[str, np.ndarray],
    labels: np.ndarray,
    classes: Sequence[str],
    path: str | Path,
    title: str = "",
) -> Path:
    """Picture of a partition: the class distribution of every client, and its size, as a PNG.

    Args:
        clients: client id -> indices into the data set.
        labels: the class id of every sample of the data set, int [N].
        classes: names of the classes, in order of their ids.
        path: the PNG.
        title: above the picture.

    Raises:
        ConfigError, DataError: as :func:`partition_statistics`.
    """
    statistics = partition_statistics(clients, labels, len(classes))
    counts = statistics["class_counts"]
    sizes = counts.sum(axis=1)
    return draw_mixes(counts, sizes, list(clients), classes, path, title, in_words(statistics))


def show_partition(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str], path: Path
) -> None:
    """Print a partition's statistics and draw it to a PNG, both titled by the file's name."""
    statistics = partition_statistics(clients, labels, len(classes))
    print_statistics(statistics, path.stem, Console(soft_wrap=True, highlight=False))
    draw_partition(clients, labels, classes, path, path.stem)


def draw_mixes(
    counts: np.ndarray,
    sizes: np.ndarray,
    clients: Sequence[str],
    classes: Sequence[str],
    path: str | Path,
    title: str = "",
    subtitle: str = "",
    kind: str = "class",
    unit: str = "samples",
    tests: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Heat map of what each client has: a column for each client, a row for each class; a PNG.

    The shade is the share of the class among the client's samples. Shades grow darker with the
    share, so that they differ for every kind of color vision and in print; a class that the
    client does not have is white. Columns are in order of the client's largest class, which makes
    skew visible as a diagonal. Below, the sizes in the same order.

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
    figure.suptitle(title or "partition", fontsize=12, fontweight="bold")
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
