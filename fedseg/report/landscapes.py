"""Pictures of landscapes and spectra, each as PNG, SVG and an interactive page."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import LogNorm, Normalize
from plotly.subplots import make_subplots

from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.report.drawing import COLORS, MARKERS, new_figure, plain_axes, save_figure
from fedseg.runs.from_json import LARGEST_NUMBER

MAP = "cividis"  # the same for every kind of color vision
LEVELS = 14
DOTS = 60  # values of a curve up to which each has a dot
BLUR = 100  # the width of a density is so many times that of one of its eigenvalues


def write_landscape(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """``landscape.png``, ``.svg`` and ``.html`` of the content of a ``landscape.json``.

    A surface is drawn from above, too: ``landscape_map``. Panels beside each other have one scale
    and the same levels; it is logarithmic if losses are above 0 and differ by a factor of 10 or
    more.

    Raises:
        DataError: no loss is finite.
    """
    losses = np.concatenate([_values(s["loss"]).ravel() for s in content["series"]])
    losses = losses[np.isfinite(losses)]
    if not len(losses):
        raise DataError(f"{folder}: no loss of the landscape is finite: name smaller --ends")
    low, high = float(losses.min()), float(losses.max())
    logarithmic = 0 < 10 * low < high
    if low == high:
        low, high = low - 0.5, high + 0.5
    flat = {"line": _lines, "plane": _maps}.get(content["spec"]["kind"])
    drawn = {"landscape": flat} if flat else {"landscape": _surfaces, "landscape_map": _maps}
    scale = low, high, logarithmic
    return [p for n, draw in drawn.items() for p in _write(*draw(content, *scale), folder, n)]


def write_spectra(found: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """``spectra.png``, ``.svg`` and ``.html`` of what was measured of some checkpoints.

    The largest eigenvalues, the spectral density (each eigenvalue a bell curve), and the largest
    eigenvalue on each client's data, the largest first: as far as they were measured.

    Args:
        found: name of a checkpoint -> content of its ``curvature.json``.
    """
    names, panels = short_names(found), [[], [], []]
    for name, result in found.items():
        quantities = result["quantities"]
        with suppress(TypeError, ValueError, KeyError, AttributeError, OverflowError):  # damaged
            values = (quantities.get("spectrum") or quantities.get("top") or {}).get("eigenvalues")
            clients = quantities.get("clients", {}).get("lambda_max", {}).values()
            for panel, rows in ((panels[0], values or ()), (panels[2], sorted(clients)[::-1])):
                if rows:
                    drawn = _finite(rows).tolist()
                    panel.append(Curve(names[name], range(1, 1 + len(rows)), drawn))
            if "density" in quantities:
                panels[1].append(Curve(names[name], *_density(quantities["density"])))
    labels = ("number", "eigenvalue"), ("eigenvalue", "density"), ("client", "largest eigenvalue")
    drawn = [Panel(*words, p) for words, p in zip(labels, panels, strict=True) if p]
    return _write(*_curves(drawn), folder, "spectra") if drawn else []


def _density(density: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = (_finite(np.ravel(density[key])) for key in ("nodes", "weights"))
    weights = weights / weights.sum()
    width = (np.ptp(nodes[weights > 0]) or 1) / BLUR
    x = np.linspace(nodes.min() - 4 * width, nodes.max() + 4 * width, 1000)
    bells = np.exp(-(((x[:, None] - nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    y = bells @ weights
    return x, np.where(y > 1e-9 * y.max(), y, np.nan)


def _write(figure: Any, page: go.Figure, folder: Path, name: str) -> list[Path]:
    paths = [save_figure(figure, folder / f"{name}.{kind}") for kind in ("png", "svg")]
    write_text(folder / f"{name}.html", page.to_html(include_plotlyjs=True, div_id=name))
    return [*paths, folder / f"{name}.html"]


def _values(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)  # None is NaN


def _finite(values: Any) -> np.ndarray:
    """Numbers [n]; ValueError if they are of another form or size than can be drawn."""
    found = _values(values)
    if found.ndim != 1 or not (abs(found) < LARGEST_NUMBER).all():
        raise ValueError("not finite numbers in a row")
    return found


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Checkpoints' names without the folders that all of them share; a single one's last part."""
    parts = {name: Path(name).parts for name in names}
    shared = -1 if len(parts) == 1 else 0
    while len(parts) > 1 and len({p[shared : shared + 1] for p in parts.values()}) == 1:
        shared += 1
    return {name: str(Path(*p[shared:])) for name, p in parts.items()}


def _labels(content: Mapping[str, Any]) -> list[str]:
    """Models and data of every series."""
    series = content["series"]
    short = short_names({name for one in series for name in one["models"]})
    named = [" to ".join(short[name] for name in one["models"]) for one in series]
    return [", ".join(filter(None, (n, s["data"]))) for n, s in zip(named, series, strict=True)]


# ---------------------------------------------------------------- curves


class Curve(NamedTuple):
    label: str
    x: Sequence[float]
    y: Sequence[float]
    dash: bool = False


class Panel(NamedTuple):
    across: str
    up: str
    curves: list[Curve]


def _curves(panels: Sequence[Panel], marks: Sequence[float] = ()) -> tuple[Any, go.Figure]:
    """Panels beside each other, those logarithmic whose values differ by a factor of 10 or more."""
    figure, page = new_figure(5.2 * len(panels), 4), make_subplots(1, len(panels))
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    named: dict[str, Any] = {}
    for column, panel in enumerate(panels, start=1):
        axes, place = figure.add_subplot(1, len(panels), column), {"row": 1, "col": column}
        values = np.concatenate([_values(curve.y) for curve in panel.curves])
        scale = "log" if 0 < 10 * np.nanmin(values) < np.nanmax(values) else "linear"
        for label, x, y, dash in panel.curves:
            color, y, dots = COLORS[labels.index(label) % len(COLORS)], _values(y), len(y) <= DOTS
            style = {"linestyle": "--" if dash else "-", "color": color, "marker": "." * dots}
            legend = {"name": label, "legendgroup": label, "showlegend": label not in named}
            line = {"color": color, "dash": "dash" if dash else "solid"}
            mode = "lines+markers" if dots else "lines"
            page.add_scatter(x=list(x), y=y, line=line, mode=mode, **legend, **place)
            (named[label],) = axes.plot(x, y, **style)
        for mark in marks:
            axes.axvline(mark, color="0.6", linewidth=0.8)
        axes.set(xlabel=panel.across, ylabel=panel.up, yscale=scale)
        page.update_yaxes(type=scale, title=panel.up, **place)
        page.update_xaxes(title=panel.across, **place)
        plain_axes(axes)
    style = {"loc": "outside upper left", "fontsize": 8, "frameon": False}
    figure.legend(named.values(), named.keys(), **style)
    return figure, page


def _lines(content: Mapping[str, Any], *_: Any) -> tuple[Any, go.Figure]:
    panels = []
    for name in ("loss", *content["series"][0]["metrics"]):
        curves = []
        for label, one in zip(_labels(content), content["series"], strict=True):
            label += f", barrier {one['barrier']:.3g}" if one.get("barrier") is not None else ""
            values = one["loss"] if name == "loss" else one["metrics"][name]
            curves.append(Curve(label, content["axes"][0], values, one["data"] != "train"))
        panels.append(Panel("gamma (0: the first model, 1: the second)", name, curves))
    return _curves(panels, marks=(0, 1))


# ---------------------------------------------------------------- maps and surfaces


def _maps(
    content: Mapping[str, Any], low: float, high: float, logarithmic: bool
) -> tuple[Any, go.Figure]:
    count, (x, y) = len(content["series"]), map(np.array, content["axes"])
    figure = new_figure(5 * count + 1, 4.6)
    titles = [f"loss: {label}" for label in _labels(content)]
    page = make_subplots(1, count, subplot_titles=titles)
    norm = LogNorm(low, high) if logarithmic else Normalize(low, high)
    levels = (np.geomspace if logarithmic else np.linspace)(low, high, LEVELS)
    change, title = _scaled(logarithmic)
    ends = {"zmin": float(change(low)), "zmax": float(change(high)), "colorscale": MAP}
    panels = figure.subplots(1, count, squeeze=False)[0]
    short = short_names(content["marks"])
    for column, (axes, one) in enumerate(zip(panels, content["series"], strict=True), start=1):
        loss, place = _values(one["loss"]).T, {"row": 1, "col": column}
        shown = axes.contourf(x, y, loss, levels=levels, norm=norm, cmap=MAP, extend="both")
        axes.contour(x, y, loss, levels=levels, colors="white", linewidths=0.4)
        bar = {"colorbar": {"title": title}, "showscale": column == 1}
        page.add_contour(x=x, y=y, z=change(loss), **bar, **ends, **place)
        for number, (name, spot) in enumerate(content["marks"].items()):
            path = content["trajectory"].get(name, [])
            along = np.array([step["coordinates"] for step in path]).reshape(-1, 2)
            color = COLORS[1 + number % 3]
            axes.plot(*along.T, ".-", color=color, linewidth=0.8, markersize=3)
            style = {"color": color, "markersize": 10, "markeredgecolor": "white"}
            axes.plot(*spot, MARKERS[number], label=short[name], linestyle="", **style)
            look = {"marker": {"size": 11, "color": color}, "showlegend": column == 1, **place}
            page.add_scatter(x=spot[:1], y=spot[1:], mode="markers", name=short[name], **look)
        axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axes.set_title(titles[column - 1], fontsize=11)
    if content["marks"]:
        panels[0].legend(fontsize=7)
    figure.colorbar(shown, ax=list(panels), format="%.4g")
    page.update_layout(legend={"orientation": "h"})
    return figure, page


def _surfaces(
    content: Mapping[str, Any], low: float, high: float, logarithmic: bool
) -> tuple[Any, go.Figure]:
    """The first as a solid, the others as nets."""
    figure, page = new_figure(6, 5, layout=None), go.Figure()
    axes = figure.add_axes((0, 0.02, 0.92, 0.98), projection="3d")
    x, y = np.meshgrid(*content["axes"], indexing="ij")
    change, title = _scaled(logarithmic)
    for number, (label, one) in enumerate(zip(_labels(content), content["series"], strict=True)):
        z, color = change(_values(one["loss"])), COLORS[number % len(COLORS)]
        solid = number == 0
        if solid:
            axes.plot_surface(x, y, z, color=color, alpha=0.75, linewidth=0, label=label)
        else:
            axes.plot_wireframe(x, y, z, color=color, linewidth=0.7, label=label)
        look = {"opacity": 0.9 if solid else 0.5, "colorscale": [[0, color], [1, color]]}
        page.add_surface(x=x, y=y, z=z, name=label, showlegend=True, showscale=False, **look)
    axes.set_zlabel(title)
    axes.locator_params(nbins=5)
    axes.legend(fontsize=8)
    page.update_scenes(zaxis_title=title)
    return figure, page


def _scaled(logarithmic: bool) -> tuple[Any, str]:
    return (np.log10, "log10 loss") if logarithmic else (np.asarray, "loss")
