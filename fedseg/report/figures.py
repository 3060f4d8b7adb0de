"""Figures of runs: canvases, heat maps of percentages, confusion matrices, clients over rounds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from fedseg.errors import DataError
from fedseg.files import atomic_writer
from fedseg.metric_names import MAIN_METRICS, domain_label
from fedseg.report.corruptions import MEAN, corruption_label

# Okabe and Ito's colors, distinct for every kind of color vision (without yellow and black)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
SHADES = "YlGnBu"
DPI = 120
FORMATS = ("png", "svg", "pdf")
LABEL = 0.18  # inches of a line of text with space above it


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """Make a canvas of so many inches."""
    # not pyplot: it keeps global state and may want a display
    return Figure(figsize=(width, height), dpi=DPI, layout=layout)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write PNG, SVG or PDF, by the suffix, without the time; makes its folder.

    Raises:
        DataError: the file has another suffix.
    """
    path = Path(path)
    kind = path.suffix[1:]
    if kind not in FORMATS:
        raise DataError(f"{path}: must end with .png, .svg or .pdf")
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a name with dollar signs is no formula
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=metadata.get(kind))
    return path


def plain_axes(axes: Any, grid: str = "both") -> None:
    """Draw pale grid lines (``"both"``, ``"x"`` or ``"y"``) and no frame above and on the right."""
    axes.grid(axis=grid, color="0.9")
    axes.set_axisbelow(True)
    seaborn.despine(ax=axes)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(LogFormatter())
            axis.set_minor_formatter(LogFormatter())


def round_axes(axes: Any, rounds: int, title: str, metric: str | None) -> None:
    """Prepare an empty chart of a metric, or of something else, over the rounds."""
    axes.set_title(title, fontsize=11)
    axes.set_ylabel(f"{metric} (%)" if metric in MAIN_METRICS else metric or "")
    axes.set_xlabel("round")
    axes.set_xlim(0, max(rounds, 1) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    plain_axes(axes)


def readable_labels(places: Sequence[float], extent: float, inches: float) -> list[int]:
    """Choose the labels that do not overprint the one before, by number.

    Args:
        places: of all labels on an axis, in rising order.
        extent: of the axis, in the places' unit.
        inches: its length.
    """
    least = extent * LABEL / inches
    chosen: list[int] = []
    for number, place in enumerate(places):
        if not chosen or place - places[chosen[-1]] >= least:
            chosen.append(number)
    return chosen


def draw_percentages(
    values: pd.DataFrame, title: str, palette: Sequence[Sequence[int]] | None = None
) -> Figure:
    """Draw a heat map of percentages, NaN in gray; the last row, a mean, is apart and bold.

    Args:
        values: in percent; the names of its rows and columns are the labels.
        title: of the figure.
        palette: RGB color of each row but the last.
    """
    lines = [line for column in values.columns for line in str(column).split("\n")]
    width = max(1.1, 0.09 * max(len(line) for line in lines))
    rows, columns = values.shape
    figure = new_figure(2.6 + width * columns, 1.5 + 0.31 * rows)
    axes = figure.add_subplot(facecolor="0.95")
    style = {"cmap": SHADES, "vmin": 0, "vmax": 100, "linewidths": 1.5, "cbar": False}
    seaborn.heatmap(values, annot=True, fmt=".1f", xticklabels=1, yticklabels=1, ax=axes, **style)
    axes.axhline(rows - 1, color="white", linewidth=5)
    for text in axes.texts:
        if text.get_position()[1] > rows - 1:
            text.set_fontweight("bold")
    axes.get_yticklabels()[-1].set_fontweight("bold")
    colors = np.array(palette or [])[: rows - 1] / 255
    beside = axes.get_yaxis_transform() + ScaledTranslation(-10 / 72, 0, figure.dpi_scale_trans)
    for row, color in enumerate(colors):
        axes.plot(0, row + 0.5, "s", color=color, markersize=9, transform=beside, clip_on=False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="x", rotation=0)
    axes.tick_params(axis="y", rotation=0, pad=20 if palette else 4)
    axes.set(xlabel="", ylabel="", xlim=(0, columns), ylim=(rows, 0))
    axes.set_title(title, fontsize=12, fontweight="bold", pad=10)
    return figure


def draw_iou_by_class(
    domains: Mapping[str, Mapping[str, Any]],
    palette: Sequence[Sequence[int]] | None = None,
    title: str = "",
) -> Figure | None:
    """Draw IoU by class (rows) and domain (columns), mIoU below; None without any IoU."""
    by_class = {domain: entry["IoU"] for domain, entry in domains.items() if entry.get("IoU")}
    if not by_class:
        return None
    values = pd.DataFrame(by_class)
    values.loc["mIoU"] = [domains[domain].get("mIoU") for domain in by_class]
    labels = [domain_label(domain, by_class).replace(" ", "\n", 1) for domain in by_class]
    numbers = values.apply(pd.to_numeric, errors="coerce").set_axis(labels, axis=1)
    return draw_percentages(numbers, f"{title}\nIoU by class (%)".strip(), palette)


def draw_corruptions(table: pd.DataFrame, title: str = "") -> Figure:
    """Draw a table of :func:`fedseg.report.corruptions.corruption_table` under a title."""
    columns = [column if column == MEAN else f"severity {column}" for column in table.columns]
    rows = [corruption_label(name) for name in table.index]
    values = table.set_axis(columns, axis=1).set_axis(rows, axis=0)
    return draw_percentages(values, f"{title}\naccuracy (%)".strip())


def draw_confusion(entry: Mapping[str, Any], title: str = "") -> Figure:
    """Draw the share of each class's pixels (rows) that is predicted as each class (columns).

    Args:
        entry: of a domain in ``confusion`` of ``test_results.json``. Classes that neither truth
            nor prediction has are left out.
        title: of the figure.
    """
    pixels = pd.DataFrame(entry["pixels"], entry["classes"], entry["classes"], dtype=float)
    present = (pixels.sum(axis=0) + pixels.sum(axis=1)).to_numpy() > 0
    pixels = pixels.loc[present, present]
    shares = 100 * pixels.div(pixels.sum(axis=1), axis=0)
    count = len(shares)
    texts = shares.map(lambda share: f"{share:.0f}" if share >= 0.5 else "")
    figure = new_figure(2.5 + 0.5 * count, 1.8 + 0.42 * count)
    axes = figure.add_subplot()
    style = {"cmap": SHADES, "vmin": 0, "vmax": 100, "cbar": False, "annot_kws": {"fontsize": 8}}
    seaborn.heatmap(shares, annot=texts, fmt="", xticklabels=1, yticklabels=1, ax=axes, **style)
    axes.tick_params(axis="y", rotation=0)
    axes.set_xticks(axes.get_xticks(), shares.columns, rotation=45, ha="right")
    axes.set(xlabel="predicted", ylabel="truth", title=f"{title} (% of the true class)".strip())
    return figure


def draw_client_accuracy(
    entry: Mapping[str, Any], series: Mapping[int, Sequence[float | None]], title: str = ""
) -> Figure:
    """Draw the accuracy of each client (rows) over the evaluated rounds (columns).

    Clients are sorted by the class that they hold most of: what the model forgets from one round
    to another shows as bands that go dark.

    Args:
        entry: ``client_accuracy`` of a run's results.
        series: evaluated round -> accuracy in percent by client, from the history.
        title: name of the run.
    """
    values = pd.DataFrame(list(series.values()), list(series), dtype=float).T
    classes = np.asarray(entry["main_class"])
    order = np.argsort(classes, kind="stable")
    clients = len(classes)
    height = min(2 + 0.05 * max(clients, 20), 8)
    figure = new_figure(9.5, height)
    axes = figure.add_subplot()
    seaborn.heatmap(
        values.iloc[order],
        cmap="cividis",
        vmin=0,
        vmax=100,
        cbar_kws={"label": "accuracy (%)", "pad": 0.01},
        xticklabels=-(-values.shape[1] // 8),  # every so many
        yticklabels=False,
        ax=axes,
    )
    axes.tick_params(axis="x", rotation=0)
    axes.set_xlabel("round (evaluated ones, evenly spaced here)")
    axes.set_ylabel(f"{clients} clients, by their main class")
    ends = np.flatnonzero(np.diff(classes[order])) + 1
    if len(ends) < 30:
        axes.hlines(ends, 0, values.shape[1], "white", linewidth=0.7)
        middles = (np.r_[0, ends] + np.r_[ends, clients]) / 2
        names = [entry["classes"][number] for number in np.unique(classes)]
        shown = readable_labels(middles, clients, height - 1)
        axes.set_yticks(middles[shown], [names[number] for number in shown])
        axes.tick_params(axis="y", length=0)
    kind = "test images in each client's class mix"
    if entry.get("images") == "train":
        kind = "each client's own training images"
    axes.set_title(f"{title}: accuracy on {kind}".removeprefix(": "), fontsize=11)
    return figure
