"""Pictures of landscapes and spectra: PNG and SVG by Matplotlib, a page of surfaces by Plotly."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.report.drawing import COLORS, MARKERS, new_figure, plain_axes, save_figure
from fedseg.runs.history import LARGEST_NUMBER

MAP = "cividis"  # the same for every kind of color vision
LEVELS = 14
MOST_DOTS = 60  # values of a curve up to which each has a dot
BLUR = 100  # a density is so many times as wide as the bell of an eigenvalue


class Curve(NamedTuple):
    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def write_landscape(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """PNG and SVG of :func:`draw_landscape`; of a grid also ``landscape.html``, to be turned."""
    paths = []
    for name, figure in draw_landscape(content).items():
        paths += [save_figure(figure, folder / f"{name}.{kind}") for kind in ("png", "svg")]
    if content["spec"]["kind"] != "line":
        page = _surface_page(content).to_html(include_plotlyjs=True, div_id="page")
        write_text(folder / "landscape.html", page)
        paths.append(folder / "landscape.html")
    return paths


def draw_landscape(content: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures by file name, of the content of a ``landscape.json``.

    Of a line curves, of a plane a map, of the others surfaces and, as ``landscape_map``, the same
    from above. Panels beside each other have one scale and the same levels; it is logarithmic if
    losses are above 0 and differ by a factor of 10 or more.

    Raises:
        DataError: no loss is finite.
    """
    kind, scale = content["spec"]["kind"], _scale(content)
    if kind == "line":
        return {"landscape": _draw_lines(content)}
    contours = _draw_maps(content, scale)
    if kind == "plane":
        return {"landscape": contours}
    return {"landscape": _draw_surfaces(content, scale), "landscape_map": contours}


def write_spectra(results: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """``spectra.png`` and ``.svg`` of :func:`draw_spectra`, if anything of it was measured."""
    figure = draw_spectra(results)
    kinds = ("png", "svg") if figure is not None else ()
    return [save_figure(figure, folder / f"spectra.{kind}") for kind in kinds]


def draw_spectra(results: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Curves of what was measured of some checkpoints.

    The largest eigenvalues, the spectral density (each eigenvalue a bell curve), and the largest
    eigenvalue on each client's data, the largest first: as far as they were measured.

    Args:
        results: name of a checkpoint -> content of its ``curvature.json``.
    """
    names = short_names(results)
    labels = ("number", "eigenvalue"), ("eigenvalue", "density"), ("client", "largest eigenvalue")
    top, densities, clients = panels = [], [], []
    for name, result in results.items():
        quantities = result["quantities"]
        with suppress(TypeError, ValueError, KeyError, AttributeError, OverflowError):  # damaged
            values = (quantities.get("spectrum") or quantities.get("top") or {}).get("eigenvalues")
            local = quantities.get("clients", {}).get("lambda_max", {}).values()
            for panel, row in ((top, values or ()), (clients, sorted(local)[::-1])):
                if row:
                    panel.append(Curve(names[name], range(1, 1 + len(row)), _finite(row)))
            if "density" in quantities:
                densities.append(Curve(names[name], *_blur(quantities["density"])))
    panels = {pair: curves for pair, curves in zip(labels, panels, strict=True) if curves}
    return _draw_curves(panels) if panels else None


def _blur(density: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = (_finite(np.ravel(density[key])) for key in ("nodes", "weights"))
    weights = weights / weights.sum()
    width = (np.ptp(nodes[weights > 0]) or 1) / BLUR
    x = np.linspace(nodes.min() - 4 * width, nodes.max() + 4 * width, 1000)
    bells = np.exp(-(((x[:, None] - nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    y = bells @ weights
    return x, np.where(y > 1e-9 * y.max(), y, np.nan)


def _values(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)  # None is NaN


def _finite(values: Any) -> np.ndarray:
    """Numbers [n]; ValueError if they are of another form or size than can be drawn."""
    array = _values(values)
    if array.ndim != 1 or not (abs(array) < LARGEST_NUMBER).all():
        raise ValueError("not finite numbers in a row")
    return array


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Checkpoints' names without the folders that all of them share; a single one's last part."""
    parts = {name: Path(name).parts for name in names}
    shared = -1 if len(parts) == 1 else 0
    while len(parts) > 1 and len({p[shared : shared + 1] for p in parts.values()}) == 1:
        shared += 1
    return {name: str(Path(*p[shared:])) for name, p in parts.items()}


def _label_series(content: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Every series with the names of its models and data."""
    series = content["series"]
    short = short_names({name for one in series for name in one["models"]})
    for one in series:
        models = " to ".join(short[name] for name in one["models"])
        yield ", ".join(filter(None, (models, one["data"]))), one


# ---------------------------------------------------------------- curves


def _draw_curves(
    panels: Mapping[tuple[str, str], Sequence[Curve]], marks: Sequence[float] = ()
) -> Figure:
    """Panels beside each other, those logarithmic whose values differ by a factor of 10 or more."""
    figure = new_figure(5.2 * len(panels), 4)
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    colors = dict.fromkeys(curve.label for curves in panels.values() for curve in curves)
    colors = {label: COLORS[n % len(COLORS)] for n, label in enumerate(colors)}
    lines: dict[str, Any] = {}
    for axes, ((across, up), curves) in zip(row, panels.items(), strict=True):
        for label, x, y, dashed in curves:
            style = {"linestyle": "--" if dashed else "-", "marker": "." * (len(y) <= MOST_DOTS)}
            (lines[label],) = axes.plot(x, _values(y), color=colors[label], **style)
        for mark in marks:
            axes.axvline(mark, color="0.6", linewidth=0.8)
        values = np.concatenate([_values(curve.y) for curve in curves])
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
        for label, one in _label_series(content):
            label += f", barrier {one['barrier']:.3g}" if one.get("barrier") is not None else ""
            values = one["loss"] if name == "loss" else one["metrics"][name]
            curves.append(Curve(label, content["axes"][0], values, one["data"] != "train"))
        panels["gamma (0: the first model, 1: the second)", name] = curves
    return _draw_curves(panels, marks=(0, 1))


# ---------------------------------------------------------------- maps and surfaces


def _scale(content: Mapping[str, Any]) -> Normalize:
    """One scale for all losses of a landscape."""
    losses = np.concatenate([_values(one["loss"]).ravel() for one in content["series"]])
    losses = losses[np.isfinite(losses)]
    if not len(losses):
        raise DataError("no loss of the landscape is finite: name smaller --ends")
    low, high = float(losses.min()), float(losses.max())
    if 0 < 10 * low < high:
        return LogNorm(low, high)
    return Normalize(low, high) if low < high else Normalize(low - 0.5, high + 0.5)


def _heights(losses: Any, scale: Normalize) -> tuple[np.ndarray, str]:
    """Losses as heights in a surface, and the title of their axis."""
    if isinstance(scale, LogNorm):
        return np.log10(_values(losses)), "log10 loss"
    return _values(losses), "loss"


def _draw_maps(content: Mapping[str, Any], scale: Normalize) -> Figure:
    count, (x, y) = len(content["series"]), content["axes"]
    figure = new_figure(5 * count + 1, 4.6)
    panels = figure.subplots(1, count, squeeze=False)[0]
    short, levels = short_names(content["marks"]), scale.inverse(np.linspace(0, 1, LEVELS))
    for axes, (label, one) in zip(panels, _label_series(content), strict=True):
        loss = _values(one["loss"]).T
        filled = axes.contourf(x, y, loss, levels=levels, norm=scale, cmap=MAP, extend="both")
        axes.contour(x, y, loss, levels=levels, colors="white", linewidths=0.4)
        for number, (name, spot) in enumerate(content["marks"].items()):
            steps = [step["coordinates"] for step in content["trajectory"].get(name, [])]
            color = COLORS[1 + number % 3]
            path = np.array(steps).reshape(-1, 2).T
            axes.plot(*path, ".-", color=color, linewidth=0.8, markersize=3)
            style = {"color": color, "markersize": 10, "markeredgecolor": "white"}
            axes.plot(*spot, MARKERS[number], label=short[name], linestyle="", **style)
        axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axes.set_title(f"loss: {label}", fontsize=11)
    if content["marks"]:
        panels[0].legend(fontsize=7)
    figure.colorbar(filled, ax=list(panels), format="%.4g")
    return figure


def _draw_surfaces(content: Mapping[str, Any], scale: Normalize) -> Figure:
    """The first as a solid, the others as nets."""
    figure = new_figure(6, 5, layout=None)
    axes = figure.add_axes((0, 0.02, 0.92, 0.98), projection="3d")
    grid = np.meshgrid(*content["axes"], indexing="ij")
    for number, (label, one) in enumerate(_label_series(content)):
        heights, title = _heights(one["loss"], scale)
        style = {"color": COLORS[number % len(COLORS)], "label": label}
        if number == 0:
            axes.plot_surface(*grid, heights, alpha=0.75, linewidth=0, **style)
        else:
            axes.plot_wireframe(*grid, heights, linewidth=0.7, **style)
    axes.set_zlabel(title)
    axes.locator_params(nbins=5)
    axes.legend(fontsize=8)
    return figure


def _surface_page(content: Mapping[str, Any]) -> go.Figure:
    """Every surface in its color, to be turned and switched off."""
    page, scale = go.Figure(), _scale(content)
    x, y = np.meshgrid(*content["axes"], indexing="ij")
    for number, (label, one) in enumerate(_label_series(content)):
        color = COLORS[number % len(COLORS)]
        style = {"colorscale": [[0, color], [1, color]], "opacity": 0.5 if number else 0.9}
        heights, title = _heights(one["loss"], scale)
        page.add_surface(x=x, y=y, z=heights, name=label, showlegend=True, showscale=False, **style)
    page.update_scenes(zaxis_title=title)
    return page
