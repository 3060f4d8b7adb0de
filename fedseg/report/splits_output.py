"""Splits as tables on the terminal and as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedseg.cli import widen_console
from fedseg.errors import ConfigError
from fedseg.report.charts import COLOURS, DPI
from fedseg.report.partition_charts import NAMED, add_scale, draw_cells, draw_mixes, order_of
from fedseg.report.splits import View

PLURAL = {"class": "classes", "domain": "domains"}
BARS = 40  # of a histogram, at most
OVERVIEW = "splits.png"


def print_views(views: Sequence[View], console: Console | None = None) -> None:
    """Print a row a split, and a row a test set.

    Args:
        views: what to print. console: where to; standard output by default.
    """
    console = console or Console()
    widen_console(console)
    console.print(_splits_table(views))
    console.print(
        "a client: least / median / most; distance: mean total-variation distance of a client's "
        "mix to the whole data set's, from 0 (all alike) to nearly 1",
        style="dim",
    )
    if any(view.tests for view in views):
        console.print()
        console.print(_tests_table(views))
    for view in views:
        for note in view.notes:
            console.print(escape(note), highlight=False, soft_wrap=True)


def _splits_table(views: Sequence[View]) -> Table:
    """A column a split."""
    table = _table("splits")
    table.add_column("", no_wrap=True)
    for view in views:
        table.add_column(escape(view.name), justify="right", overflow="fold")
    found = [view.statistics for view in views]
    for key in ("clients", "samples", "unused"):
        table.add_row(key, *(f"{one[key]:,}" for one in found))
    table.add_row("samples a client", *(_spread(one["size"]) for one in found))
    for kind in dict.fromkeys(view.kind for view in views if view.kind):
        pairs = [(view.kind == kind, one) for view, one in zip(views, found, strict=True)]
        held = [(one["class_counts"].sum(axis=0) > 0).sum() if of else None for of, one in pairs]
        table.add_row(PLURAL[kind], *("" if count is None else f"{count:,}" for count in held))
        table.add_row(
            f"{PLURAL[kind]} a client",
            *(_spread(one["classes_per_client"]) if of else "" for of, one in pairs),
        )
    distances = [f"{o['total_variation']:.3f}" for o in found]
    known = zip(views, distances, strict=True)
    table.add_row("distance", *(text if view.kind else "" for view, text in known))
    return table


def _tests_table(views: Sequence[View]) -> Table:
    table = _table("test sets")
    for name in ("split", "test set"):
        table.add_column(name, overflow="fold")
    for name in ("images", "of", "also held by clients"):
        table.add_column(name, justify="right", no_wrap=True)
    for view in views:
        held = view.counts.sum(axis=0) > 0
        counts = view.test_counts()
        for name, test in (view.tests or {}).items():
            row = ["", ""]
            if name in counts and view.kind:
                there = counts[name] > 0
                word = view.kind if there.sum() == 1 else PLURAL[view.kind]
                row = [f"{there.sum():,} {word}", f"{(there & held).sum():,}"]
            table.add_row(escape(view.name), escape(name), f"{test.samples:,}", *row)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)


def _spread(found: Mapping[str, float]) -> str:
    if found["min"] == found["max"]:
        return f"{found['min']:,}"
    return f"{found['min']:,} / {found['median']:,.10g} / {found['max']:,}"


# ---------------------------------------------------------------- pictures


def write_pictures(
    views: Sequence[View], folder: str | Path, pixels: Mapping[str, np.ndarray] | None = None
) -> list[Path]:
    """Write ``splits.png``, all splits side by side, and ``<name>.png`` for each that has rows.

    Args:
        views: the splits. folder: where to; it is made.
        pixels: view's name -> pixels of every class that each client holds, for
            ``<name>_pixels.png``.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    folder = Path(folder)
    try:
        paths = [draw_side_by_side(views, folder / OVERVIEW)]
        for view in views:
            # the overview's own name is taken
            stem = view.name if f"{view.name}.png" != OVERVIEW else f"{view.name}_1"
            if view.kind is not None:
                paths.append(_draw_view(view, folder / f"{stem}.png"))
            if pixels and view.name in pixels:
                paths.append(_draw_pixels(view, pixels[view.name], folder / f"{stem}_pixels.png"))
    except OSError as error:
        raise ConfigError(f"--out: {folder}: cannot be written to ({error})") from error
    return paths


def _draw_view(view: View, path: Path) -> Path:
    return draw_mixes(
        view.counts,
        view.sizes,
        list(view.clients),
        view.rows,
        path,
        view.title,
        _subtitle(view),
        kind=str(view.kind),
        tests=view.test_counts(),
    )


def _draw_pixels(view: View, counts: np.ndarray, path: Path) -> Path:
    shown = counts.sum(axis=1) > 0  # a client's images may be ignored everywhere
    clients = [client for client, there in zip(view.clients, shown, strict=True) if there]
    classes = view.dataset.classes if view.dataset is not None else ()
    return draw_mixes(
        counts[shown],
        view.sizes[shown],
        clients,
        classes,
        path,
        view.title,
        f"{len(clients):,} clients; {counts.sum():,} pixels that are not ignored",
        unit="pixels",
    )


def _subtitle(view: View) -> str:
    found = view.statistics
    plural = PLURAL[str(view.kind)]
    return (
        f"{found['clients']:,} clients; samples a client: {_spread(found['size'])}; "
        f"{plural} a client: {_spread(found['classes_per_client'])}"
    )


def draw_side_by_side(views: Sequence[View], path: str | Path) -> Path:
    """A column a split: the mixes of its clients, sizes, and number of classes or domains.

    The shades of all heat maps mean the same.
    """
    width = 4.6 if len(views) > 1 else 8
    names = max((len(view.rows) for view in views), default=0)
    height = min(max(2.6, 0.115 * names), 12) if names <= NAMED else 6
    figure = Figure(figsize=(width * len(views) + 0.8, height + 3.9), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: it keeps global state and may want a display
    grid = figure.subplots(3, len(views), squeeze=False, height_ratios=[height, 1.4, 1.4])
    shares = [view.counts / view.sizes[:, None] for view in views]
    most = max(float(array.max()) for array in shares)
    image = None
    for column, (view, mixes) in enumerate(zip(views, shares, strict=True)):
        upper, middle, lower = grid[:, column]
        upper.set_title(view.name, fontsize=10, fontweight="bold")
        if view.kind is None:
            for axes, text in ((upper, "classes are not known"), (lower, "")):
                axes.set_axis_off()
                axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="0.5")
        else:
            image = draw_cells(upper, mixes[order_of(mixes)].T, view.rows, most, view.kind)
            upper.set_xlabel(f"{len(view.clients):,} clients")
            upper.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            if column and view.rows == views[column - 1].rows:
                upper.tick_params(axis="y", labelleft=False)
                upper.set_ylabel("")
            number = (view.counts > 0).sum(axis=1)
            _draw_histogram(lower, number, COLOURS[1], f"{PLURAL[view.kind]} a client")
        _draw_histogram(middle, view.sizes, COLOURS[0], "samples a client")
        for axes in (middle, lower):
            axes.set_ylabel("" if column else "clients")
    if image is not None:
        add_scale(figure, image, list(grid[0]), "share of the client's samples")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _draw_histogram(axes: Any, values: np.ndarray, colour: str, label: str) -> None:
    """How many clients have how much; bars are as wide as whole numbers allow."""
    low, high = int(values.min()), int(values.max())
    step = max(1, -(-(high - low + 1) // BARS))
    edges = np.arange(low, high + step + 1, step) - 0.5
    counts, _ = np.histogram(values, edges)
    axes.bar(edges[:-1] + step / 2, counts, width=0.92 * step, color=colour)
    axes.set_xlabel(f"{label}: all {low:,}" if low == high else label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if low == high:
        axes.set_xlim(low - 1.5, high + 1.5)
        axes.set_xticks([low])
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
