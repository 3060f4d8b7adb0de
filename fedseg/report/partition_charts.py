"""Pictures of how samples are partitioned among clients: heat maps of classes by client, sizes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedseg.report.drawing import COLORS, new_figure, plain_axes, save_figure
from fedseg.report.partition_view import PLURAL, View, partition_statistics, spread

NAMED = 110  # classes or clients up to which each has its name at the axis; IDDA has 105 domains
MOST_ROWS, MOST_COLUMNS = 500, 1000  # cells of the picture; beyond, neighbors share one
CENTERED = {"ha": "center", "va": "center", "color": "0.5"}
OVERVIEW = "splits.png"
# without the palest part of the map: a share of one sample must differ from none
SHADES = LinearSegmentedColormap.from_list("shares", colormaps["YlGnBu"](np.linspace(0.2, 1)))


def show_partition(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str], path: Path
) -> None:
    """Print a partition's statistics and draw it to a PNG, both titled by the file's name."""
    statistics = partition_statistics(clients, labels, len(classes))
    print(
        f"{path.stem}: {statistics.in_words()}; {len(classes):,} classes in all, "
        f"{statistics.unused:,} samples unused; mean total-variation distance to the whole data "
        f"set {statistics.total_variation:.3f}"
    )
    view = View(path.stem, path.stem, clients, statistics, "class", tuple(classes))
    save_figure(draw_view(view), path)


def write_pictures(
    views: Sequence[View], folder: str | Path, pixels: Mapping[str, np.ndarray] | None = None
) -> list[Path]:
    """Write ``splits.png``, all splits side by side, and ``<name>.png`` for each that has rows."""
    figures, pixels = {OVERVIEW: draw_side_by_side(views)}, pixels or {}
    for view in views:
        # the overview's own name is taken
        stem = view.name if f"{view.name}.png" != OVERVIEW else f"{view.name}_1"
        if view.kind is not None:
            figures[f"{stem}.png"] = draw_view(view)
        if view.name in pixels:
            figures[f"{stem}_pixels.png"] = draw_view(view, pixels[view.name])
    return [save_figure(figure, Path(folder) / name) for name, figure in figures.items()]


def draw_view(view: View, pixels: np.ndarray | None = None) -> Figure:
    """Heat map of the share of each class (rows) in each client (columns), and sizes.

    Columns are in order of the client's largest class, which shows skew as a diagonal; a class that
    the client does not have is white. Test sets have columns of their own, on the right. Pixels of
    every class, int [clients, classes], are shown instead of samples.
    """
    kind, rows, counts = view.kind or "class", view.rows, view.statistics.counts
    subtitle, unit = view.statistics.in_words(kind), "samples"
    sizes, names, tests = view.statistics.sizes, np.array(list(view.clients)), view.test_counts
    if pixels is not None:
        shown = pixels.sum(axis=1) > 0  # a client's images may be ignored everywhere
        counts, sizes, names = pixels[shown], sizes[shown], names[shown]
        kind, rows, tests = "class", view.dataset.classes, {}
        subtitle = f"{len(names):,} clients; {pixels.sum():,} pixels that are not ignored"
        unit = "pixels"
    shares = counts / counts.sum(axis=1, keepdims=True)
    order = sort_clients(shares)
    # 0.115 inch a row is the least for names that can be read
    height = min(max(2.4, 0.115 * len(rows), 0.24 * min(len(rows), 14)), 12)
    figure = new_figure(13, height + 2.6)
    figure.suptitle(view.title, fontsize=12, fontweight="bold")
    ratios = {"height_ratios": [height, 1.3]}
    if tests:
        ratios["width_ratios"] = [22, max(1.6, 0.9 * len(tests))]
    shared = {"sharex": "col", "sharey": "row", "squeeze": False}
    grid = figure.subplots(2, 1 + bool(tests), **shared, **ratios)
    upper, lower = grid[:, 0]
    mixes = {name: row / max(row.sum(), 1) for name, row in tests.items()}
    most = max([shares.max(), *(mix.max() for mix in mixes.values())])
    image = draw_cells(upper, shares[order].T, rows, most, kind)
    upper.set_title(subtitle, fontsize=10)
    if mixes:
        beside, below = grid[:, 1]
        draw_cells(beside, np.stack(list(mixes.values())).T, rows, most, kind)
        beside.set(title="test sets", ylabel="")
        beside.title.set_fontsize(10)
        below.set_axis_off()
        for number, name in enumerate(mixes):
            style = {"rotation": 90, "va": "top", "ha": "center", "fontsize": 9}
            place = below.get_xaxis_transform()  # its own height, not the clients' scale
            text = below.text(number + 0.5, 1, name, transform=place, **style)
            text.set_in_layout(False)  # it may reach down beside the clients' names
    whose = unit if mixes else f"client's {unit}"
    _add_scale(figure, image, list(grid[0]), f"share of the {whose}")
    _draw_sizes(lower, sizes[order])
    if len(names) <= NAMED:
        lower.set_xticks(np.arange(len(names)) + 0.5, names[order])
        small = len(names) > 30 or sum(map(len, names)) > 120
        lower.tick_params(axis="x", labelsize=6.5 if small else 9, rotation=90 if small else 0)
    lower.set(xlabel=f"clients, in order of their largest {kind}", ylabel=unit)
    return figure


def draw_side_by_side(views: Sequence[View]) -> Figure:
    """A column for each split: its clients' mixes, in one scale, and their sizes."""
    width = 4.6 if len(views) > 1 else 8
    names = max(len(view.rows) for view in views)
    height = min(max(2.6, 0.115 * names), 12) if names <= NAMED else 6
    figure = new_figure(width * len(views) + 0.8, height + 2.5)
    ratios = {"height_ratios": [height, 1.4]}
    grid = figure.subplots(2, len(views), squeeze=False, sharex="col", **ratios)
    shares = [view.statistics.counts / view.statistics.sizes[:, None] for view in views]
    most = max(float(array.max()) for array in shares)
    image = None
    for column, (view, mixes) in enumerate(zip(views, shares, strict=True)):
        (upper, lower), order = grid[:, column], sort_clients(mixes)
        title = view.name
        if view.kind is None:
            upper.set_axis_off()
            upper.text(0.5, 0.5, "classes are not known", **CENTERED, transform=upper.transAxes)
        else:
            held = spread(view.statistics.classes_per_client)
            title += f"\n{PLURAL[view.kind]} per client: {held}"
            image = draw_cells(upper, mixes[order].T, view.rows, most, view.kind)
            if column and view.rows == views[column - 1].rows:
                upper.tick_params(axis="y", labelleft=False)
                upper.set_ylabel("")
        upper.set_title(title, fontsize=10)
        _draw_sizes(lower, view.statistics.sizes[order])
        lower.set_xlabel(f"{len(view.clients):,} clients")
    grid[1, 0].set_ylabel("samples")
    if image is not None:
        _add_scale(figure, image, list(grid[0]), "share of the client's samples")
    return figure


def _draw_sizes(axes: Any, sizes: np.ndarray) -> None:
    axes.stairs(sizes, fill=True, color=COLORS[0])
    axes.margins(x=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    plain_axes(axes, grid="y")


def sort_clients(shares: np.ndarray) -> np.ndarray:
    """Clients in order of their largest class, those with most of it first; from [clients, K]."""
    return np.lexsort((-shares.max(axis=1), shares.argmax(axis=1)))


def draw_cells(
    axes: Any, shares: np.ndarray, classes: Sequence[str], most: float, kind: str = "class"
) -> Any:
    """A heat map of shares [classes, clients] from 0 to ``most``, white at 0; returns its image."""
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
    if columns <= NAMED:
        axes.vlines(range(1, columns), 0, rows, "0.93", linewidth=0.5)
    if rows <= NAMED:
        axes.hlines(range(1, rows), 0, columns, "0.93", linewidth=0.5)
        axes.set_yticks(np.arange(rows) + 0.5, classes, fontsize=9 if rows <= 30 else 6.5)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(f"{kind} id")
    axes.tick_params(length=0)
    axes.spines[:].set_color("0.6")
    return image


def _pool(values: np.ndarray, most: int, axis: int = 0) -> np.ndarray:
    """At most ``most`` cells along an axis, each the maximum of neighbors: no cell is lost."""
    length = values.shape[axis]
    most = min(most, length)
    return np.maximum.reduceat(values, np.arange(most) * length // most, axis=axis)


def _add_scale(figure: Figure, image: Any, axes: Any, label: str) -> None:
    """The scale of a heat map, beside its axes."""
    percent = PercentFormatter(xmax=1, decimals=0)
    style = {"pad": 0.01, "fraction": 0.02, "aspect": 60, "format": percent}
    figure.colorbar(image, ax=axes, label=label, **style).outline.set_visible(False)
