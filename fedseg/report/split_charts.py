"""Splits as tables on the terminal and as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from rich.console import Console
from rich.markup import escape

from fedseg.cli import widen_console
from fedseg.errors import ConfigError
from fedseg.report.drawing import COLORS, new_figure, plain_axes, save_figure, write_centered
from fedseg.report.partition_charts import (
    NAMED,
    PLURAL,
    add_scale,
    draw_cells,
    draw_mixes,
    order_of,
    spread,
)
from fedseg.report.split_views import View
from fedseg.report.tables import TextTable

BARS = 40  # of a histogram, at most
OVERVIEW = "splits.png"


def print_views(views: Sequence[View], console: Console | None = None) -> None:
    """Print a column for each split, and a row for each test set."""
    console = console or Console()
    widen_console(console)
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
    found = [view.statistics for view in views]
    rows = [
        ("clients", *(f"{len(view.clients):,}" for view in views)),
        ("samples", *(f"{one.sizes.sum():,}" for one in found)),
        ("unused", *(f"{one.unused:,}" for one in found)),
        ("samples per client", *(spread(one.sizes) for one in found)),
    ]
    for kind in dict.fromkeys(view.kind for view in views if view.kind):
        held, each = [], []
        for view, one in zip(views, found, strict=True):
            own = view.kind == kind
            held.append(f"{one.counts.any(axis=0).sum():,}" if own else "")
            each.append(spread(one.classes_per_client) if own else "")
        rows += [(PLURAL[kind], *held), (f"{PLURAL[kind]} per client", *each)]
    pairs = zip(views, found, strict=True)
    rows.append(("distance", *(f"{o.total_variation:.3f}" if v.kind else "" for v, o in pairs)))
    head = ("", *(view.name for view in views))
    return TextTable("splits", head, tuple(rows), right=tuple(range(1, len(head))))


def _tests_table(views: Sequence[View]) -> TextTable:
    rows = []
    for view in views:
        held = view.statistics.counts.any(axis=0)
        for name, samples in view.tests.items():
            of = also = ""
            if name in view.test_counts and view.kind:
                there = view.test_counts[name] > 0
                of = f"{there.sum():,} {view.kind if there.sum() == 1 else PLURAL[view.kind]}"
                also = f"{(there & held).sum():,}"
            rows.append((view.name, name, f"{samples:,}", of, also))
    head = ("split", "test set", "images", "of", "also held by clients")
    return TextTable("test sets", head, tuple(rows), right=(2, 3, 4))


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
                paths.append(_draw_view(view, view.kind, folder / f"{stem}.png"))
            if pixels and view.name in pixels:
                paths.append(_draw_pixels(view, pixels[view.name], folder / f"{stem}_pixels.png"))
    except OSError as error:
        raise ConfigError(f"--out: {folder}: cannot be written to ({error})") from error
    return paths


def _draw_view(view: View, kind: str, path: Path) -> Path:
    found, names = view.statistics, list(view.clients)
    shown = (found.counts, found.sizes, names, view.rows, path, view.title, found.in_words(kind))
    return draw_mixes(*shown, kind=kind, tests=view.test_counts)


def _draw_pixels(view: View, counts: np.ndarray, path: Path) -> Path:
    shown = counts.sum(axis=1) > 0  # a client's images may be ignored everywhere
    clients = [client for client, there in zip(view.clients, shown, strict=True) if there]
    classes = view.dataset.classes if view.dataset is not None else ()
    subtitle = f"{len(clients):,} clients; {counts.sum():,} pixels that are not ignored"
    drawn = (counts[shown], view.statistics.sizes[shown], clients, classes, path, view.title)
    return draw_mixes(*drawn, subtitle, unit="pixels")


def draw_side_by_side(views: Sequence[View], path: Path) -> Path:
    """A column for each split: its clients' mixes, in one scale, sizes, numbers of classes."""
    width = 4.6 if len(views) > 1 else 8
    names = max((len(view.rows) for view in views), default=0)
    height = min(max(2.6, 0.115 * names), 12) if names <= NAMED else 6
    figure = new_figure(width * len(views) + 0.8, height + 3.9)
    grid = figure.subplots(3, len(views), squeeze=False, height_ratios=[height, 1.4, 1.4])
    found = [view.statistics for view in views]
    shares = [one.counts / one.sizes[:, None] for one in found]
    most = max(float(array.max()) for array in shares)
    image = None
    for column, (view, one, mixes) in enumerate(zip(views, found, shares, strict=True)):
        upper, middle, lower = grid[:, column]
        upper.set_title(view.name, fontsize=10, fontweight="bold")
        if view.kind is None:
            upper.set_axis_off()
            lower.set_axis_off()
            write_centered(upper, "classes are not known")
        else:
            image = draw_cells(upper, mixes[order_of(mixes)].T, view.rows, most, view.kind)
            upper.set_xlabel(f"{len(view.clients):,} clients")
            upper.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            if column and view.rows == views[column - 1].rows:
                upper.tick_params(axis="y", labelleft=False)
                upper.set_ylabel("")
            label = f"{PLURAL[view.kind]} per client"
            _draw_histogram(lower, one.classes_per_client, COLORS[1], label)
        _draw_histogram(middle, one.sizes, COLORS[0], "samples per client")
        for axes in (middle, lower):
            axes.set_ylabel("" if column else "clients")
    if image is not None:
        add_scale(figure, image, list(grid[0]), "share of the client's samples")
    return save_figure(figure, path)


def _draw_histogram(axes: Any, values: np.ndarray, color: str, label: str) -> None:
    """How many clients have how much; bars are as wide as whole numbers allow."""
    low, high = int(values.min()), int(values.max())
    step = max(1, -(-(high - low + 1) // BARS))
    edges = np.arange(low, high + step + 1, step) - 0.5
    axes.hist(values, edges, rwidth=0.92, color=color)
    axes.set_xlabel(f"{label}: all {low:,}" if low == high else label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if low == high:
        axes.set_xlim(low - 1.5, high + 1.5)
        axes.set_xticks([low])
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    plain_axes(axes, grid="y")
