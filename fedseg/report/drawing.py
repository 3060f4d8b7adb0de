"""Shared parts of charts: colors, canvases, axes, heat maps of percentages, smoothed losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from fedseg.files import atomic_writer
from fedseg.metric_names import MAIN_METRICS

# Okabe and Ito's colors, distinct for every kind of color vision (without yellow and black)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
SHADES = colormaps["YlGnBu"]
DPI = 120
LABEL = 0.18  # inches of a line of text with space above it
SMOOTHED_FROM = 60  # rounds from which on a moving average helps the eye


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """A canvas of so many inches."""
    # not pyplot: it keeps global state and may want a display
    return Figure(figsize=(width, height), dpi=DPI, layout=layout)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a PNG, or an SVG without the time; makes its folder."""
    kind = Path(path).suffix[1:]
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a name with dollar signs is no formula
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return Path(path)


class _PlainLogFormatter(LogFormatter):
    """Plain numbers where the usual labels of powers are formulas."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def plain_axes(axes: Any, grid: str = "both") -> None:
    """No frame above and on the right, pale grid lines (``"both"``, ``"x"`` or ``"y"``)."""
    axes.grid(axis=grid, color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(_PlainLogFormatter())
            axis.set_minor_formatter(_PlainLogFormatter())


def draw_percentages(
    table: Mapping[str, Sequence[float | None]],
    columns: Sequence[str],
    title: str,
    palette: Sequence[Sequence[int]] | None = None,
) -> Figure:
    """Heat map of percentages by row, None in gray; the last row, a mean, is apart and bold."""
    values = np.array(list(table.values()), dtype=float)  # None is NaN
    mean = len(table) - 1
    longest = max(len(line) for name in columns for line in name.split("\n"))
    width = max(1.1, 0.09 * longest)
    figure = new_figure(2.6 + width * len(columns), 1.5 + 0.31 * len(table))
    axes = figure.add_subplot(facecolor="0.95")
    axes.pcolormesh(values, cmap=SHADES, vmin=0, vmax=100)
    for (y, x), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.1f}"  # noqa: RUF001 (a dash, not a minus)
        weight, color = "bold" if y == mean else "normal", "white" if value > 58 else "0.1"
        style = {"ha": "center", "va": "center", "fontsize": 9, "fontweight": weight}
        axes.text(x + 0.5, y + 0.5, text, color=color, **style)
    axes.hlines(range(1, len(table)), 0, len(columns), "white", linewidth=1.5)
    axes.vlines(range(1, len(columns)), 0, len(table), "white", linewidth=1.5)
    axes.axhline(mean, color="white", linewidth=5)
    colors = np.array(palette or [])[:mean] / 255
    beside = axes.get_yaxis_transform() + ScaledTranslation(-10 / 72, 0, figure.dpi_scale_trans)
    for y, color in enumerate(colors):
        axes.plot(0, y + 0.5, "s", color=color, markersize=9, transform=beside, clip_on=False)
    axes.set(xlim=(0, len(columns)), ylim=(len(table), 0))
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(table)) + 0.5, list(table))
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", pad=20 if palette else 4)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=12, fontweight="bold", pad=10)
    return figure


def readable_labels(places: Sequence[float], extent: float, inches: float) -> list[int]:
    """The numbers of the labels that do not overprint the one before.

    Args:
        places: of all labels on an axis, in rising order.
        extent: of the axis, in the places' unit.
        inches: its length.
    """
    least = extent * LABEL / inches
    kept: list[int] = []
    for number, place in enumerate(places):
        if not kept or place - places[kept[-1]] >= least:
            kept.append(number)
    return kept


def round_axes(axes: Any, rounds: int, title: str, shown: str | None) -> None:
    """An empty chart of a metric, or of something else, over the rounds."""
    axes.set_title(title, fontsize=11)
    axes.set_ylabel(f"{shown} (%)" if shown in MAIN_METRICS else shown or "")
    axes.set_xlabel("round")
    axes.set_xlim(0, max(rounds, 1) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    plain_axes(axes)


def draw_losses(axes: Any, losses: Mapping[int, float], color: Any, linestyle: Any = "-") -> None:
    """The loss by round; from 60 rounds on it is pale, and its moving mean is the line."""
    rounds, values = list(losses), np.array(list(losses.values()))
    if len(rounds) >= SMOOTHED_FROM:
        axes.plot(rounds, values, color=color, linewidth=0.9, alpha=0.3)
        values = moving_mean(values, max(5, len(rounds) // 25))
    marker = "o" if len(rounds) <= 30 else None
    style = {"linestyle": linestyle, "linewidth": 1.9, "marker": marker, "markersize": 3.5}
    axes.plot(rounds, values, color=color, **style)


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centered mean over each window, which is shorter at both ends."""
    kernel = np.ones(window)
    count = np.convolve(np.ones(len(values)), kernel, mode="same")
    return np.convolve(values, kernel, mode="same") / count
