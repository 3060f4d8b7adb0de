"""Curvature on the terminal, pictures of landscapes and spectra, and a page of surfaces."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from fedseg.cli import wide_console
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.names import short_names
from fedseg.report.drawing import (
    COLORS,
    MARKERS,
    new_figure,
    plain_axes,
    readable_labels,
    save_figure,
)
from fedseg.runner.checkpoint import run_folder
from fedseg.runs.tables import MISSING, TextTable

MAP = "cividis"  # the same for every kind of color vision
LEVELS = 14
MOST_DOTS = 60  # values of a curve up to which each has a dot
CLIENT_PANEL = 3.4, 2.9  # inches of a map of clients by rounds, without its labels
BLUR = 100  # a density is so many times as wide as the bell of an eigenvalue
ROWS = {
    "loss": ("loss", "loss"),
    "gradient": ("loss", "gradient_norm"),
    "lambda_1": ("top", "lambda_max"),
    "lambda_1 / lambda_5": ("top", "lambda_max_over_lambda5"),
    "trace": ("trace", "trace"),
    "Frobenius": ("trace", "frobenius_norm"),
    "SAM": ("sharpness", "sam"),
    "ASAM": ("sharpness", "asam"),
    "clients' lambda_1: median (quartiles)": ("clients", "quartiles"),
    "participants' lambda_1, own data: mean": ("participants", "lambda_max_local"),
    "participants' lambda_1, all data: mean": ("participants", "lambda_max_global"),
    "H_N": ("fedalign", "hessian_norm_diff"),
    "H_D": ("fedalign", "hessian_direction_cos"),
    "trained models' lambda_1, own data: mean": ("updated", "lambda_max"),
    "features' norm: mean over classes": ("features", "norm_by_class"),
    "outputs' norm: mean over classes": ("features", "output_norm_by_class"),
}
BY_CLIENT = {  # title of a map clients x rounds
    "largest eigenvalue of the trained model, own data": ("updated", "lambda_max"),
    "norm of the last features": ("features", "of_clients"),
    "norm of the outputs": ("features", "outputs_of_clients"),
}


def print_curvature(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a column for each checkpoint, of its ``curvature.json``; norms of features by class."""
    console, quantities = wide_console(), [result["quantities"] for result in results.values()]
    head = ("", *(f"{name} ({result['checkpoint']})" for name, result in results.items()))
    counts = [sorted({q["num_samples"] for q in of.values()}) for of in quantities]
    rows = [("data", *(result["data"] for result in results.values()))]
    rows.append(("samples", *(", ".join(map(str, numbers)) for numbers in counts)))
    for row, (quantity, key) in ROWS.items():
        rows.append((row, *(_format(q.get(quantity, {}).get(key)) for q in quantities)))
    tables = {"curvature": rows}
    for title, parts in (
        ("norm of the last features, means", ("norm_by_class", "of_clients")),
        ("norm of the outputs, means", ("output_norm_by_class", "outputs_of_clients")),
    ):
        norms = tables[title] = []
        for kind, part in zip(("class", "client"), parts, strict=True):
            columns = [q.get("features", {}).get(part, {}) for q in quantities]
            for key in dict.fromkeys(chain(*columns)):
                norms.append((f"{kind} {key}", *(_format(column.get(key)) for column in columns)))
    for title, table in tables.items():
        if filled := [row for row in table if {*row[1:]} != {MISSING}]:
            console.print(TextTable(title, head, filled).to_rich())


def _format(value: Any) -> str:
    """A number, an estimate, quartiles, or the mean of several."""
    if not value and value != 0:
        return MISSING
    if isinstance(value, list):
        return f"{value[2]:.4g} ({value[1]:.4g} to {value[3]:.4g})"
    if isinstance(value, Mapping) and "standard_error" in value:
        error = value["standard_error"]
        return f"{value['value']:.4g}" + (f" ± {error:.2g}" if error is not None else "")
    return f"{_mean(value):.4g}"


class Curve(NamedTuple):
    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def write_landscape(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """PNG and SVG of :func:`draw_landscape`; of surfaces also ``landscape.html``, to be turned."""
    figure = draw_landscape(content)
    paths = [save_figure(figure, folder / f"landscape.{kind}") for kind in ("png", "svg")]
    if content["spec"]["kind"] not in ("line", "plane"):
        page = _surface_page(content).to_html(include_plotlyjs=True, div_id="page")
        paths.append(folder / "landscape.html")
        write_text(paths[-1], page)
    return paths


def draw_landscape(content: Mapping[str, Any]) -> Figure:
    """The content of a ``landscape.json``: of a line curves, of the others maps.

    Panels beside each other have one scale and the same levels; it is logarithmic if losses are
    above 0 and differ by a factor of 10 or more. DataError if no loss is finite.
    """
    scale = _scale(content)
    return _draw_lines(content) if content["spec"]["kind"] == "line" else _draw_maps(content, scale)


def write_spectra(results: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """PNG and SVG of :func:`draw_spectra` and :func:`draw_clients`, of what was measured."""
    figures = {"spectra": draw_spectra(results), "clients": draw_clients(results)}
    pairs = [(n, f, kind) for n, f in figures.items() if f is not None for kind in ("png", "svg")]
    return [save_figure(figure, folder / f"{name}.{kind}") for name, figure, kind in pairs]


def draw_clients(results: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Maps clients x rounds of what was measured of two or more rounds of a run.

    The largest eigenvalue of each client's locally updated model (Caldarola et al., ECCV 2022,
    figures 4 and 16), and norms of features and outputs (figure 7), which are means over classes. A
    column for each run; in a row all have one scale, which is logarithmic if values differ by a
    factor of 10 or more. What was not measured is blank; a map without a finite
    value is left out.
    """
    runs: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for name, result in results.items():
        folder = str(run_folder(Path(name)) if name.endswith(".pth") else name.partition("@")[0])
        runs[folder][result["round"]] = result["quantities"]
    maps = {}
    for title, (quantity, key) in BY_CLIENT.items():
        tables = [{r: q.get(quantity, {}).get(key) for r, q in of.items()} for of in runs.values()]
        tables = [{r: row for r, row in table.items() if row} for table in tables]
        clients = list(dict.fromkeys(chain(*(row for table in tables for row in table.values()))))
        values = [
            [[_mean(table[r].get(client)) for r in sorted(table)] for client in clients]
            for table in tables
        ]
        every = np.concatenate([[], *map(np.ravel, values)])
        if max(map(len, tables), default=0) > 1 and np.isfinite(every).any():
            maps[title] = tables, clients, values, find_scale(every)
    if not maps:
        return None
    figure, short = new_figure(5 * len(runs) + 1, 4 * len(maps)), short_names(runs)
    grid = figure.subplots(len(maps), len(runs), squeeze=False)
    for panels, (title, (tables, clients, values, scale)) in zip(grid, maps.items(), strict=True):
        for axes, name, table, of in zip(panels, runs, tables, values, strict=True):
            image = axes.imshow(of, norm=scale, cmap=MAP, aspect="auto", interpolation="nearest")
            rounds = sorted(table)
            columns = readable_labels(range(len(rounds)), len(rounds), CLIENT_PANEL[0])
            axes.set_xticks(columns, [rounds[number] for number in columns], rotation=90)
            rows = readable_labels(range(len(clients)), len(clients), CLIENT_PANEL[1])
            axes.set_yticks(rows, [clients[number] for number in rows])
            axes.set(title=short[name], xlabel="round", ylabel="client")
        _add_bar(figure, image, panels, title)
    return figure


def _add_bar(figure: Figure, image: Any, panels: Iterable[Any], label: str) -> None:
    bar = figure.colorbar(image, ax=list(panels), format="%.4g", label=label)
    bar.ax.yaxis.set_minor_formatter("{x:.4g}")  # else of a logarithmic one in TeX


def _mean(value: Any) -> float:
    """A number, or the mean of several by name; NaN for what was not measured."""
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    return float(np.mean(_values(values))) if values else math.nan


def draw_spectra(results: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Curves of what was measured of some checkpoints, as of :func:`print_curvature`.

    The largest eigenvalues, the spectral density (each eigenvalue a bell curve), and the largest
    eigenvalue on each client's data, the largest first.
    """
    names = short_names(results)
    labels = ("number", "eigenvalue"), ("eigenvalue", "density"), ("client", "largest eigenvalue")
    top, densities, clients = panels = [], [], []
    for name, result in results.items():
        quantities = result["quantities"]
        values = (quantities.get("spectrum") or quantities.get("top") or {}).get("eigenvalues")
        local = quantities.get("clients", {}).get("lambda_max", {}).values()
        for panel, row in ((top, values), (clients, sorted(local)[::-1])):
            if row:
                panel.append(Curve(names[name], range(1, 1 + len(row)), row))
        if "density" in quantities:
            densities.append(Curve(names[name], *_blur(quantities["density"])))
    panels = {pair: curves for pair, curves in zip(labels, panels, strict=True) if curves}
    return _draw_curves(panels) if panels else None


def _blur(density: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = (np.ravel(density[key]) for key in ("nodes", "weights"))
    weights = weights / weights.sum()
    width = (np.ptp(nodes[weights > 0]) or 1) / BLUR
    x = np.linspace(nodes.min() - 4 * width, nodes.max() + 4 * width, 1000)
    bells = np.exp(-(((x[:, None] - nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    y = bells @ weights
    return x, np.where(y > 1e-9 * y.max(), y, np.nan)


def _values(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)  # None is NaN


def _label_series(content: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Every series with the names of its models and data."""
    short = short_names({name for series in content["series"] for name in series["models"]})
    for series in content["series"]:
        models = " to ".join(short[name] for name in series["models"])
        yield ", ".join(filter(None, (models, series["data"]))), series


def _draw_curves(
    panels: Mapping[tuple[str, str], Sequence[Curve]], marks: Sequence[float] = ()
) -> Figure:
    """Panels beside each other, those logarithmic whose values differ by a factor of 10 or more."""
    figure = new_figure(5.2 * len(panels), 4)
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    colors, lines = defaultdict(cycle(COLORS).__next__), {}
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
        curves = panels["gamma (0: the first model, 1: the second)", name] = []
        for label, series in _label_series(content):
            if series.get("barrier") is not None:
                label += f", barrier {series['barrier']:.3g}"
            values = {"loss": series["loss"], **series["metrics"]}[name]
            curves.append(Curve(label, content["axes"][0], values, series["data"] != "train"))
    return _draw_curves(panels, marks=(0, 1))


def _scale(content: Mapping[str, Any]) -> Normalize:
    """One scale for all losses of a landscape."""
    losses = np.concatenate([_values(series["loss"]).ravel() for series in content["series"]])
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
    count, (x, y) = len(content["series"]), content["axes"]
    figure = new_figure(5 * count + 1, 4.6)
    panels = figure.subplots(1, count, squeeze=False)[0]
    short, levels = short_names(content["marks"]), scale.inverse(np.linspace(0, 1, LEVELS))
    for axes, (label, series) in zip(panels, _label_series(content), strict=True):
        loss = _values(series["loss"]).T
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
    _add_bar(figure, filled, panels, "")
    return figure


def _surface_page(content: Mapping[str, Any]) -> go.Figure:
    """Every surface in its color, to be turned and switched off."""
    page, logarithmic = go.Figure(), isinstance(_scale(content), LogNorm)
    x, y = np.meshgrid(*content["axes"], indexing="ij")
    for number, (label, series) in enumerate(_label_series(content)):
        color, losses = COLORS[number % len(COLORS)], _values(series["loss"])
        heights = np.log10(losses) if logarithmic else losses
        style = {"colorscale": [[0, color], [1, color]], "opacity": 0.5 if number else 0.9}
        page.add_surface(x=x, y=y, z=heights, name=label, showlegend=True, showscale=False, **style)
    page.update_scenes(zaxis_title="log10 loss" if logarithmic else "loss")
    return page
