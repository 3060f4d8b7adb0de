"""Pictures of landscapes: lines, maps and surfaces as PNG and SVG, and an interactive page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import LogNorm, Normalize
from plotly.subplots import make_subplots

from fedseg.errors import DataError
from fedseg.files import atomic_writer
from fedseg.report.drawing import COLORS, MARKERS, new_figure, plain_axes, save_figure

MAP = "cividis"  # the same for every kind of color vision
LEVELS = 14


def write_pictures(
    content: Mapping[str, Any], folder: Path, logarithmic: bool = True
) -> list[Path]:
    """``landscape.png``, ``.svg`` and ``.html`` of the content of a ``landscape.json``.

    Panels beside each other have one scale and the same levels.

    Args:
        logarithmic: scale of the loss, if losses are above 0 and differ by a factor of 10 or more.
    """
    losses = np.concatenate([_values(s["loss"]).ravel() for s in content["series"]])
    losses = losses[np.isfinite(losses)]
    if not len(losses):
        raise DataError(f"{folder}: no loss of the landscape is finite: lower --range")
    logarithmic = logarithmic and 0 < 10 * losses.min() < losses.max()
    kind = content["spec"]["kind"]
    draw = {"line": _draw_lines, "plane": _draw_maps}.get(kind, _draw_surfaces)
    figure = draw(content, losses, logarithmic)
    paths = [save_figure(figure, folder / "landscape.png")]
    with atomic_writer(folder / "landscape.svg", "wb") as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    page = _page(content, losses, logarithmic)
    with atomic_writer(folder / "landscape.html") as file:
        file.write(page.to_html(include_plotlyjs=True, div_id="landscape"))
    return [*paths, folder / "landscape.svg", folder / "landscape.html"]


def _values(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)  # None is NaN


def short_names(names: Any) -> dict[str, str]:
    """Checkpoints' names without the folders that all of them share."""
    parts = {name: Path(name).parts for name in names}
    shared = 0
    while len(parts) > 1 and len({p[shared] for p in parts.values() if len(p) > shared}) == 1:
        if any(len(p) <= shared + 1 for p in parts.values()):
            break
        shared += 1
    return {name: str(Path(*p[shared:])) if p else name for name, p in parts.items()}


def _draw_lines(content: Mapping[str, Any], losses: np.ndarray, logarithmic: bool) -> Any:
    names = ["loss", *content["series"][0]["metrics"]]
    figure = new_figure(5.2 * len(names), 4)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for number, series in enumerate(content["series"]):
            values = _values(series["loss"] if name == "loss" else series["metrics"][name])
            height = series.get("barrier")
            note = f", barrier {height:.3g}" if name == "loss" and height is not None else ""
            style = "-" if series["data"] == "train" else "--"
            axes.plot(
                content["axes"][0],
                values,
                color=COLORS[number % len(COLORS)],
                linestyle=style,
                label=f"{series['label']}, {series['data']}{note}",
            )
        if name == "loss" and logarithmic:
            axes.set_yscale("log")
        for place in (0, 1):
            axes.axvline(place, color="0.6", linewidth=0.8)
        axes.set_xlabel("gamma (0: the first model, 1: the second)")
        axes.set_ylabel(name)
        plain_axes(axes)
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper left", fontsize=8, frameon=False)
    return figure


def _scale(losses: np.ndarray, logarithmic: bool) -> tuple[Any, np.ndarray]:
    """The norm and levels that all panels share."""
    low, high = losses.min(), losses.max()
    if low == high:
        low, high = low - 0.5, high + 0.5
        logarithmic = logarithmic and low > 0
    if logarithmic:
        return LogNorm(low, high), np.geomspace(low, high, LEVELS)
    return Normalize(low, high), np.linspace(low, high, LEVELS)


def _draw_maps(content: Mapping[str, Any], losses: np.ndarray, logarithmic: bool) -> Any:
    count = len(content["series"])
    figure = new_figure(5 * count + 1, 4.6)
    panels = figure.subplots(1, count, squeeze=False)[0]
    norm, levels = _scale(losses, logarithmic)
    x, y = (np.array(axis) for axis in content["axes"])
    short = short_names(content["marks"])
    for axes, series in zip(panels, content["series"], strict=True):
        loss = _values(series["loss"]).T
        shown = axes.contourf(x, y, loss, levels=levels, norm=norm, cmap=MAP, extend="both")
        axes.contour(x, y, loss, levels=levels, colors="white", linewidths=0.4)
        for number, (name, place) in enumerate(content["marks"].items()):
            path = content.get("trajectory", {}).get(name, [])
            along = np.array([step["coordinates"] for step in path]).reshape(-1, 2)
            color = COLORS[1 + number % 3]
            axes.plot(*along.T, ".-", color=color, linewidth=0.8, markersize=3)
            style = {"color": color, "markersize": 10, "markeredgecolor": "white"}
            axes.plot(*place, MARKERS[number], label=short[name], linestyle="", **style)
        axes.set_xlim(x[0], x[-1])
        axes.set_ylim(y[0], y[-1])
        axes.set_title(f"loss, {series['data']}", fontsize=11)
    panels[0].legend(fontsize=7)
    figure.colorbar(shown, ax=list(panels), format="%.3g")
    return figure


def _draw_surfaces(content: Mapping[str, Any], losses: np.ndarray, logarithmic: bool) -> Any:
    figure = new_figure(7.5, 6, layout=None)
    axes = figure.add_subplot(projection="3d")
    x, y = np.meshgrid(*content["axes"], indexing="ij")
    short = short_names({s["label"] for s in content["series"]})
    for number, series in enumerate(content["series"]):
        z = _values(series["loss"])
        z, color = np.log10(z) if logarithmic else z, COLORS[number % len(COLORS)]
        label = f"{short[series['label']]}, {series['data']}"
        if number == 0:
            axes.plot_surface(x, y, z, color=color, alpha=0.75, linewidth=0, label=label)
        else:
            axes.plot_wireframe(x, y, z, color=color, linewidth=0.7, label=label)
    axes.set_zlabel("log10 loss" if logarithmic else "loss")
    axes.legend(fontsize=8)
    return figure


def _page(content: Mapping[str, Any], losses: np.ndarray, logarithmic: bool) -> go.Figure:
    kind, series = content["spec"]["kind"], content["series"]
    if kind == "line":
        figure = go.Figure()
        for one in series:
            label = f"{one['label']}, {one['data']}"
            figure.add_scatter(x=content["axes"][0], y=one["loss"], name=label, mode="lines")
        figure.update_yaxes(type="log" if logarithmic else "linear", title="loss")
        figure.update_xaxes(title="gamma")
        return figure
    x, y = content["axes"]
    change = np.log10 if logarithmic else np.asarray
    title = "log10 loss" if logarithmic else "loss"
    scale = {"cmin": float(change(losses.min())), "cmax": float(change(losses.max()))}
    if kind == "plane":
        figure = make_subplots(1, len(series), subplot_titles=[s["data"] for s in series])
        bounds = {"zmin": scale["cmin"], "zmax": scale["cmax"], "colorscale": MAP}
        for column, one in enumerate(series, start=1):
            z = change(_values(one["loss"])).T
            options = {"colorbar": {"title": title}, "showscale": column == 1, **bounds}
            figure.add_contour(x=x, y=y, z=z, row=1, col=column, **options)
            for name, place in content["marks"].items():
                spot = {"mode": "markers", "name": name, "marker": {"size": 11}}
                figure.add_scatter(x=place[:1], y=place[1:], row=1, col=column, **spot)
        return figure
    figure = go.Figure()
    for number, one in enumerate(series):
        z = change(_values(one["loss"])).T
        look = {"opacity": 0.9 if number == 0 else 0.5, "showscale": number == 0, **scale}
        name = f"{one['label']}, {one['data']}"
        figure.add_surface(x=x, y=y, z=z, name=name, showlegend=True, colorscale=MAP, **look)
    figure.update_scenes(zaxis_title=title)
    return figure
