"""What charts share: colors, canvases, axes, percentages in colored cells, smoothed losses."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedseg.files import atomic_writer

# Okabe and Ito's colors, distinct for every kind of color vision (without yellow and black)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
SHADES = colormaps["YlGnBu"]
DPI = 120
SMOOTHED_FROM = 60  # rounds from which on a moving average helps the eye


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """A canvas of so many inches."""
    # not pyplot: it keeps global state and may want a display
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a PNG; makes its folder."""
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format="png")
    return Path(path)


def plain_axes(axes: Any, grid: str = "both") -> None:
    """No frame above and on the right, pale grid lines (``"both"``, ``"x"`` or ``"y"``)."""
    axes.grid(axis=grid, color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def write_centered(axes: Any, text: str) -> None:
    """Gray text instead of a chart that has nothing to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.5")


def draw_percentage(axes: Any, x: float, y: float, value: float | None, bold: bool = False) -> None:
    """A cell of a heat map with its number, in the shade of 0 to 100; None is gray."""
    face = "0.95" if value is None else SHADES(value / 100)
    axes.add_patch(Rectangle((x - 0.49, y - 0.47), 0.98, 0.94, facecolor=face))
    axes.text(
        x,
        y,
        "–" if value is None else f"{value:.1f}",  # noqa: RUF001 (a dash, not a minus)
        ha="center",
        va="center",
        fontsize=9,
        fontweight="bold" if bold else "normal",
        color="white" if value is not None and value > 58 else "0.1",
    )


def smoothing_window(rounds: int) -> int:
    """Rounds over which a loss is averaged to be read, the same in all charts."""
    return max(5, rounds // 25) if rounds >= SMOOTHED_FROM else 1


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centered mean over the finite values of each window, which is shorter at both ends."""
    valid = np.isfinite(values)
    kernel = np.ones(window)
    total = np.convolve(np.where(valid, values, 0), kernel, mode="same")
    count = np.convolve(valid, kernel, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
