"""How a data set is shared out: statistics of a partition by label, as a table and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedseg.errors import DataError
from fedseg.partition import check_clients
from fedseg.report.charts import COLOURS, DPI

NAMED = 110  # classes or clients up to which each has its name at the axis; IDDA has 105 domains
MOST_ROWS, MOST_COLUMNS = 500, 1000  # cells of the picture; beyond, neighbours share one


def partition_statistics(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, num_classes: int
) -> dict[str, Any]:
    """Sizes of the clients, and how their mixes of classes differ.

    Args:
        clients: client id -> indices into the data set, as a partition gives them.
        labels: the class id of every sample of the data set, int [N].
        num_classes: classes of the data set, also those that do not occur.

    Returns:
        ``clients`` and ``classes``: their numbers; ``samples``: those that clients hold;
        ``unused``: those that no client holds; ``size``: of a client, and
        ``classes_per_client``, each ``{"min", "median", "mean", "max"}``;
        ``total_variation``: mean over the clients of the total-variation distance
        ``1/2 sum_c |p_kc - p_c|`` between the client's mix and the mix of the whole data set,
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


def print_statistics(
    statistics: Mapping[str, Any], title: str = "", console: Console | None = None
) -> None:
    """Print what :func:`partition_statistics` gives, without the counts, as a table.

    Args:
        statistics: of a partition.
        title: above the table, for example the data set and the kind of partition.
        console: where to print; standard output by default.
    """
    table = Table(title=escape(title) or None, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in ("min", "median", "mean", "max"):
        table.add_column(name, justify="right")
    for name, key in (("samples a client", "size"), ("classes a client", "classes_per_client")):
        spread = statistics[key]
        least, median, mean, most = (spread[k] for k in ("min", "median", "mean", "max"))
        table.add_row(name, f"{least:,}", f"{median:,.10g}", f"{mean:,.2f}", f"{most:,}")
    console = console or Console()
    console.print(table)
    unused = statistics["unused"]
    console.print(
        f"{statistics['clients']:,} clients, {statistics['samples']:,} samples"
        + (f" ({unused:,} unused)" if unused else "")
        + f", {statistics['classes']:,} classes; mean total-variation distance to the mix of the "
        f"whole data set {statistics['total_variation']:.3f}",
        highlight=False,
    )


def draw_partition(
    clients: Mapping[str, np.ndarray],
    labels: np.ndarray,
    classes: Sequence[str],
    path: str | Path,
    title: str = "",
) -> Path:
    """Picture of a partition: the mix of classes of every client, and its size, as a PNG.

    Above, a heat map: a column a client, a row a class, the shade is the share of the class among
    the client's samples. The colours grow darker with the share, so that they can be told apart
    with any colour vision and in print; a class that the client has not is white. The columns are
    in order of the client's largest class, which makes skew visible as a diagonal. Below, the
    sizes in the same order.

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
    return draw_mixes(
        counts, counts.sum(axis=1), list(clients), classes, path, title, _subtitle(statistics)
    )


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
    """The picture of :func:`draw_partition` for whatever clients are mixes of.

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
    figure = Figure(figsize=(13, height + 2.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: it keeps global state and may want a display
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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


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
    # without the palest part of the map: a share of one sample must differ from none
    shades = LinearSegmentedColormap.from_list("shares", colormaps["YlGnBu"](np.linspace(0.2, 1)))
    image = axes.imshow(
        np.where(cells > 0, cells, np.nan),
        aspect="auto",
        interpolation="nearest",
        cmap=shades,
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


def add_scale(figure: Figure, image: Any, axes: Any, label: str) -> None:
    """The scale of a heat map, beside its axes."""
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.02, aspect=60)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    bar.set_label(label)
    bar.outline.set_visible(False)


def _draw_sizes(axes: Any, sizes: np.ndarray) -> None:
    axes.stairs(sizes, np.arange(len(sizes) + 1), fill=True, color=COLOURS[0])
    axes.set_ylabel("samples")
    axes.set_xlim(0, len(sizes))
    axes.set_ylim(0, sizes.max() * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)


def _subtitle(statistics: Mapping[str, Any]) -> str:
    size, classes = statistics["size"], statistics["classes_per_client"]
    same = size["min"] == size["max"]
    sizes = f"{size['min']:,}" if same else f"{size['min']:,} to {size['max']:,}"
    return (
        f"{statistics['clients']:,} clients of {sizes} samples; classes a client: "
        f"{classes['min']} to {classes['max']}, mean {classes['mean']:.2f}"
    )


def _pool(values: np.ndarray, most: int, axis: int = 0) -> np.ndarray:
    """At most ``most`` cells along an axis, each the maximum of neighbours: no cell is lost."""
    length = values.shape[axis]
    if length <= most:
        return values
    starts = np.unique(np.arange(most) * length // most)
    return np.maximum.reduceat(values, starts, axis=axis)


def _class_ids(labels: np.ndarray, num_classes: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels: must be one class id a sample, not an array of {labels.dtype} with shape "
            f"{labels.shape}"
        )
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if wrong.size:
        raise DataError(
            f"labels: class id {wrong[0]} occurs, but the {num_classes} classes have ids 0 to "
            f"{num_classes - 1}: give every class"
        )
    return labels


def _spread(values: np.ndarray) -> dict[str, float]:
    return {
        "min": int(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "max": int(values.max()),
    }
