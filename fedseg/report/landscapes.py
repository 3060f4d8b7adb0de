"""Pictures of landscapes, and a page of surfaces."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.names import short_names
from fedseg.report.figures import COLORS, MARKERS, new_figure, plain_axes, save_figure

MAP = "cividis"  # the same for every kind of color vision
LEVELS = 14
MOST_DOTS = 60  # values of a curve up to which each has a dot


@dataclass(frozen=True)
class Curve:
    """A curve of a panel.

    Attributes:
        label: its name in the legend.
        x, y: its points; None is a gap.
        dashed: its style.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def write_landscape(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write PNG and SVG of a landscape; of surfaces also ``landscape.html``, to be turned."""
    figure = draw_landscape(content)
    paths = [save_figure(figure, folder / f"landscape.{kind}") for kind in ("png", "svg")]
    if content["spec"]["kind"] not in ("line", "plane"):
        page = _surface_page(content).to_html(include_plotlyjs=True, div_id="page")
        paths.append(folder / "landscape.html")
        write_text(paths[-1], page)
    return paths


def draw_landscape(content: Mapping[str, Any]) -> Figure:
    """Draw curves of a line, maps of the others, as ``compute_landscape`` gives them.

    Panels beside each other have one scale and the same levels; it is logarithmic if losses are
    above 0 and differ by a factor of 10 or more. DataError if no loss is finite.
    """
    scale = _scale(content)
    return _draw_lines(content) if content["spec"]["kind"] == "line" else _draw_maps(content, scale)


def as_floats(nested: Any) -> np.ndarray:
    """Numbers as an array, None as NaN."""
    return np.array(nested, dtype=float)


def add_bar(figure: Figure, image: Any, panels: Iterable[Any], label: str) -> None:
    """Add the bar of a color scale beside panels."""
    bar = figure.colorbar(image, ax=list(panels), format="%.4g", label=label)
    bar.ax.yaxis.set_minor_formatter("{x:.4g}")  # else of a logarithmic one in TeX


def _label_series(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every series with the names of its models and data."""
    names = {name for series in content["series"] for name in series["models"]}
    short = short_names(names)
    for series in content["series"]:
        models = " to ".join(short[name] for name in series["models"])
        label = f"{models}, {series['data']}" if models else series["data"]
        yield label, series


def draw_curves(
    panels: Mapping[tuple[str, str], Sequence[Curve]], marks: Sequence[float] = ()
) -> Figure:
    """Panels beside each other, those logarithmic whose values differ by a factor of 10 or more.

    Args:
        panels: labels of both axes -> curves; those of one name have one color.
        marks: places on the horizontal axis.
    """
    figure = new_figure(5.2 * len(panels), 4)
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    colors: dict[str, str] = defaultdict(cycle(COLORS).__next__)
    lines = {}
    for axes, ((across, up), curves) in zip(row, panels.items(), strict=True):
        for curve in curves:
            style = {"color": colors[curve.label]}
            if curve.dashed:
                style["linestyle"] = "--"
            if len(curve.y) <= MOST_DOTS:
                style["marker"] = "."
            (lines[curve.label],) = axes.plot(curve.x, as_floats(curve.y), **style)
        for mark in marks:
            axes.axvline(mark, color="0.6", linewidth=0.8)
        values = np.concatenate([as_floats(curve.y) for curve in curves])
        scale = "log" if 0 < 10 * np.nanmin(values) < np.nanmax(values) else "linear"
        axes.set(xlabel=across, ylabel=up, yscale=scale)
        plain_axes(axes)
    style = {"loc": "outside upper left", "fontsize": 8, "frameon": False}
    figure.legend(lines.values(), lines.keys(), **style)
    return figure


def _draw_lines(content: Mapping[str, Any]) -> Figure:
    panels = {}
    for name in ("loss", *content["series"][0]["metrics"]):
        curves = []
        for label, series in _label_series(content):
            if series.get("barrier") is not None:
                label += f", barrier {series['barrier']:.3g}"
            values = series["loss"] if name == "loss" else series["metrics"][name]
            dashed = series["data"] != "train"
            curves.append(Curve(label, content["axes"][0], values, dashed))
        panels["gamma (0: the first model, 1: the second)", name] = curves
    return draw_curves(panels, marks=(0, 1))


def _scale(content: Mapping[str, Any]) -> Normalize:
    """One scale for all losses of a landscape."""
    losses = np.concatenate([as_floats(series["loss"]).ravel() for series in content["series"]])
    if not np.isfinite(losses).any():
        raise DataError("no loss of the landscape is finite: give smaller --ends")
    return find_scale(losses)


def find_scale(values: np.ndarray) -> Normalize:
    """From the smallest to the largest finite value; logarithmic if they differ by a factor."""
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    if 0 < 10 * low < high:
        return LogNorm(low, high)
    return Normalize(low, high) if low < high else Normalize(low - 0.5, high + 0.5)


def _draw_maps(content: Mapping[str, Any], scale: Normalize) -> Figure:
    count = len(content["series"])
    x, y = content["axes"]
    figure = new_figure(5 * count + 1, 4.6)
    panels = figure.subplots(1, count, squeeze=False)[0]
    levels = scale.inverse(np.linspace(0, 1, LEVELS))
    for axes, (label, series) in zip(panels, _label_series(content), strict=True):
        loss = as_floats(series["loss"]).T
        filled = axes.contourf(x, y, loss, levels=levels, norm=scale, cmap=MAP, extend="both")
        axes.contour(x, y, loss, levels=levels, colors="white", linewidths=0.4)
        _draw_marks(axes, content)
        axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axes.set_title(f"loss: {label}", fontsize=11)
    if content["marks"]:
        panels[0].legend(fontsize=7)
    add_bar(figure, filled, panels, "")
    return figure


def _draw_marks(axes: Any, content: Mapping[str, Any]) -> None:
    """The models of a plane, and the rounds of their runs."""
    short = short_names(content["marks"])
    for number, (name, spot) in enumerate(content["marks"].items()):
        steps = [step["coordinates"] for step in content["trajectory"].get(name, [])]
        color = COLORS[1 + number % 3]
        path = np.array(steps).reshape(-1, 2).T
        axes.plot(*path, ".-", color=color, linewidth=0.8, markersize=3)
        style = {"color": color, "markersize": 10, "markeredgecolor": "white"}
        axes.plot(*spot, MARKERS[number], label=short[name], linestyle="", **style)


def _surface_page(content: Mapping[str, Any]) -> go.Figure:
    """Every surface in its color, to be turned and switched off."""
    page = go.Figure()
    logarithmic = isinstance(_scale(content), LogNorm)
    x, y = np.meshgrid(*content["axes"], indexing="ij")
    for number, (label, series) in enumerate(_label_series(content)):
        color = COLORS[number % len(COLORS)]
        losses = as_floats(series["loss"])
        heights = np.log10(losses) if logarithmic else losses
        style = {"colorscale": [[0, color], [1, color]], "opacity": 0.5 if number else 0.9}
        page.add_surface(x=x, y=y, z=heights, name=label, showlegend=True, showscale=False, **style)
    page.update_scenes(zaxis_title="log10 loss" if logarithmic else "loss")
    return page
