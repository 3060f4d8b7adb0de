"""Splits as one table and one picture: classes or domains by client, sizes, test sets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedseg.report.figures import COLORS, new_figure, readable_labels, save_figure
from fedseg.report.splits import CLASSES, Labels, SplitView, count_split
from fedseg.report.tables import table_text

LARGEST_ROWS, LARGEST_COLUMNS = 500, 1000  # cells; beyond, neighbors share one
EXPLANATION = (
    "per client: least / median / most; distance: mean total-variation distance of a client's "
    "distribution to that of all samples, from 0 (all alike) to nearly 1"
)


def show_split(
    clients: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str], path: Path
) -> None:
    """Print the table of a split that was prepared, and draw it to a file.

    Args:
        clients: client id -> indices of its samples.
        labels: class id of each sample.
        classes: their names.
        path: of the picture.
    """
    labelled = Labels(kind=CLASSES, ids=labels, names=classes)
    view = count_split(path.stem, clients, labelled)
    print_splits([view])
    print(save_figure(draw_splits([view]), path))


def print_splits(views: Sequence[SplitView]) -> None:
    """Print the table, what its words mean, and what could not be looked at."""
    print(table_text("splits", splits_table(views)))
    print(f"\n{EXPLANATION}")
    for view in views:
        for note in view.notes:
            print(note)


def splits_table(views: Sequence[SplitView]) -> pd.DataFrame:
    """Describe each split in a column; what a split does not have is empty."""
    columns = {view.name: _describe(view) for view in views}
    return pd.DataFrame(columns).fillna("")


def _describe(view: SplitView) -> pd.Series:
    known = view.counts.columns[view.counts.any(axis=0)]
    rows = {
        "clients": f"{len(view.sizes):,}",
        "samples": f"{view.sizes.sum():,}",
        "unused": f"{view.unused:,}",
        "samples per client": spread_text(view.sizes),
        view.kind: f"{len(known):,}",
        f"{view.kind} per client": spread_text((view.counts > 0).sum(axis=1)),
        "distance": f"{view.distance:.3f}",
    }
    for test, size in view.test_sizes.items():
        text = f"{size:,} samples"
        if test in view.tests.index:
            of_test = view.tests.columns[view.tests.loc[test] > 0]
            shared = of_test.intersection(known)
            text += f"; {len(of_test):,} {view.kind}, clients have {len(shared):,} of them"
        rows[f"test set {test}"] = text
    return pd.Series(rows)


def spread_text(values: pd.Series) -> str:
    """Write least / median / most, or the one value there is."""
    low, high = values.min(), values.max()
    if low == high:
        return f"{low:,}"
    return f"{low:,} / {values.median():,.10g} / {high:,}"


def draw_splits(views: Sequence[SplitView]) -> Figure:
    """Draw each split in one scale: its clients' mixes beside those of the test sets, and sizes.

    Clients are in order of their largest class, which shows skew as a diagonal; a class that a
    client does not have is white.
    """
    mixes = [view.counts.div(view.counts.sum(axis=1), axis=0).fillna(0) for view in views]
    test_mixes = [view.tests.div(view.tests.sum(axis=1), axis=0).fillna(0) for view in views]
    largest = max(mix.to_numpy().max() for mix in mixes)
    rows = max(mix.shape[1] for mix in mixes)
    height = min(max(2.6, 0.13 * rows), 12)
    widths: list[float] = []
    for tests in test_mixes:
        widths += [5.0 if len(views) > 1 else 10.0, 0.3 + 0.25 * len(tests)]
    figure = new_figure(sum(widths) + 0.5 + 1.2 * len(views), height + 2.6)
    ratios = {"width_ratios": widths, "height_ratios": [height, 1.4]}
    grid = figure.subplots(2, 2 * len(views), squeeze=False, **ratios)
    norm = PowerNorm(0.5, vmin=0, vmax=largest)
    for number, view in enumerate(views):
        (upper, beside), (lower, below) = grid[:, 2 * number : 2 * number + 2]
        order = client_order(mixes[number])
        _draw_cells(upper, mixes[number].loc[order].T, norm)
        per_client = spread_text((view.counts > 0).sum(axis=1))
        upper.set_title(f"{view.name}\n{view.kind} per client: {per_client}", fontsize=10)
        upper.tick_params(labelbottom=False)
        _draw_sizes(lower, view.sizes.loc[order], widths[2 * number])
        below.set_axis_off()
        if len(test_mixes[number]):
            _draw_cells(beside, test_mixes[number].T, norm)
            beside.tick_params(labelleft=False)
            beside.set_title("tests", fontsize=10)
            for label in beside.get_xticklabels():
                label.set_in_layout(False)  # it may reach down beside the sizes
        else:
            beside.set_axis_off()
    scale = figure.colorbar(grid[0, 0].collections[0], ax=list(grid[0]), pad=0.01, fraction=0.02)
    scale.set_label(f"share of the client's {views[0].unit}")
    scale.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    return figure


def client_order(mixes: pd.DataFrame) -> list[str]:
    """Order clients by their largest class, those with the largest share of it first."""
    shares = mixes.to_numpy()
    order = np.lexsort((-shares.max(axis=1), shares.argmax(axis=1)))
    return mixes.index[order].tolist()


def _draw_cells(axes: Any, shares: pd.DataFrame, norm: PowerNorm) -> None:
    """Draw shares of classes (rows) by client or test set (columns), white at 0."""
    cells = _pool(_pool(shares, LARGEST_ROWS).T, LARGEST_COLUMNS).T
    seaborn.heatmap(cells, mask=cells == 0, cmap="viridis_r", norm=norm, cbar=False, ax=axes)
    axes.tick_params(length=0, labelsize=8)
    axes.tick_params(axis="x", rotation=90)
    axes.tick_params(axis="y", rotation=0)
    axes.spines[:].set(visible=True, color="0.6")
    axes.set(xlabel="", ylabel="")


def _pool(values: pd.DataFrame, largest: int) -> pd.DataFrame:
    """Keep at most ``largest`` rows, each the maximum of neighbors: no cell is lost."""
    if len(values) <= largest:
        return values
    first = np.arange(largest) * len(values) // largest
    pooled = np.maximum.reduceat(values.to_numpy(), first, axis=0)
    return pd.DataFrame(pooled, values.index[first], values.columns)


def _draw_sizes(axes: Any, sizes: pd.Series, width: float) -> None:
    """Draw the clients' sizes on axes of so many inches, with the names that can be read."""
    axes.stairs(sizes, fill=True, color=COLORS[0])
    axes.margins(x=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    middles = np.arange(len(sizes)) + 0.5
    shown = readable_labels(middles, len(sizes), width)
    axes.set_xticks(middles[shown], sizes.index[shown], rotation=90, fontsize=8)
    axes.set(xlabel=f"{len(sizes):,} clients", ylabel="samples")
    seaborn.despine(ax=axes)
