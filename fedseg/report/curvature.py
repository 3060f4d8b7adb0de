"""Curvature on the terminal, and pictures of spectra and of clients over rounds."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fedseg.cli import wide_console
from fedseg.names import short_names
from fedseg.report.figures import new_figure, readable_labels, save_figure
from fedseg.report.landscapes import MAP, Curve, add_bar, draw_curves, find_scale
from fedseg.runner.checkpoint import run_folder
from fedseg.runs.curvature_files import short_name
from fedseg.runs.tables import MISSING, TextTable

CLIENT_PANEL = (3.4, 2.9)  # inches of a map of clients by rounds, without its labels
BLUR = 100  # a density is so many times as wide as the bell of an eigenvalue
MOST_NAMES = 4  # models that a folder's name names
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
NORMS = {  # title of a table -> its values by class, and by client
    "norm of the last features, means": ("norm_by_class", "of_clients"),
    "norm of the outputs, means": ("output_norm_by_class", "outputs_of_clients"),
}
BY_CLIENT = {  # title of a map clients x rounds
    "largest eigenvalue of the trained model, own data": ("updated", "lambda_max"),
    "norm of the last features": ("features", "of_clients"),
    "norm of the outputs": ("features", "outputs_of_clients"),
}

Results = Mapping[str, Mapping[str, Any]]  # path of a run or checkpoint -> what measure() gives


def print_curvature(results: Results) -> None:
    """Print a column for each checkpoint; norms of features by class and client."""
    console = wide_console()
    head = ("", *(f"{name} ({result['checkpoint']})" for name, result in results.items()))
    rows = [
        ("data", *(result["data"] for result in results.values())),
        ("samples", *(str(result["num_samples"]) for result in results.values())),
    ]
    for row, (quantity, key) in ROWS.items():
        values = [result["quantities"].get(quantity, {}).get(key) for result in results.values()]
        rows.append((row, *map(_format, values)))
    tables = {"curvature": rows}
    for title, keys in NORMS.items():
        tables[title] = _norm_rows(results, *keys)
    for title, table in tables.items():
        filled = [row for row in table if {*row[1:]} != {MISSING}]
        if filled:
            console.print(TextTable(title, head, filled).to_rich())


def _norm_rows(results: Results, by_class: str, by_client: str) -> list[tuple[str, ...]]:
    """A row for each class, then for each client, whose norms are means over classes."""
    rows = []
    for kind, part in (("class", by_class), ("client", by_client)):
        columns = [
            result["quantities"].get("features", {}).get(part, {}) for result in results.values()
        ]
        keys: dict[str, None] = {}  # in the order of insertion
        for column in columns:
            keys |= dict.fromkeys(column)
        for key in keys:
            rows.append((f"{kind} {key}", *(_format(column.get(key)) for column in columns)))
    return rows


def _format(value: Any) -> str:
    """A number, an estimate, quartiles, or the mean of several."""
    if value is None or value == {}:
        return MISSING
    if isinstance(value, list):
        _, low, median, high, _ = value
        return f"{median:.4g} ({low:.4g} to {high:.4g})"
    if isinstance(value, Mapping) and "standard_error" in value:
        if value["standard_error"] is None:
            return f"{value['value']:.4g}"
        return f"{value['value']:.4g} ± {value['standard_error']:.2g}"
    return f"{_mean(value):.4g}"


def _mean(value: Any) -> float:
    """A number, or the mean of several by name; NaN for what was not measured."""
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    return float(np.mean(np.array(values, dtype=float))) if values else math.nan


# ---------------------------------------------------------------- pictures


def write_spectra(results: Results) -> list[Path]:
    """Write PNG and SVG of :func:`draw_spectra` and :func:`draw_clients`, of what was measured.

    They are beside the quantities of a single checkpoint; of several, in a folder of their names.
    """
    folder = pictures_folder([result["folder"] for result in results.values()])
    paths = []
    for name, figure in (("spectra", draw_spectra(results)), ("clients", draw_clients(results))):
        if figure is not None:
            paths.append(save_figure(figure, folder / f"{name}.png"))
            paths.append(save_figure(figure, folder / f"{name}.svg"))
    return paths


def pictures_folder(folders: Sequence[Path]) -> Path:
    """The folder itself; of several, one beside the first that is named by them."""
    first = folders[0]
    if len(folders) == 1:
        return first
    names = []
    for folder in folders:
        if folder.parent == first.parent:
            names.append(folder.name)
        else:
            names.append(f"{folder.resolve().parents[1].name}_{folder.name}")
    if len(names) > MOST_NAMES:
        names = [names[0], "to", names[-1], f"{len(names)}_models"]
    return first.parent / short_name("-".join(names))


def draw_spectra(results: Results) -> Figure | None:
    """Draw curves of what was measured of some checkpoints; None if there is nothing to draw.

    The largest eigenvalues, the spectral density (each eigenvalue a bell curve), and the largest
    eigenvalue on each client's data, the largest first.
    """
    names = short_names(results)
    top: list[Curve] = []
    densities: list[Curve] = []
    clients: list[Curve] = []
    for path, result in results.items():
        quantities = result["quantities"]
        largest = quantities.get("spectrum") or quantities.get("top")
        if largest:
            top.append(_numbered(names[path], largest["eigenvalues"]))
        if "density" in quantities:
            x, y = _blur(quantities["density"])
            densities.append(Curve(names[path], x, y))
        if "clients" in quantities:
            values = sorted(quantities["clients"]["lambda_max"].values(), reverse=True)
            clients.append(_numbered(names[path], values))
    panels = {
        ("number", "eigenvalue"): top,
        ("eigenvalue", "density"): densities,
        ("client", "largest eigenvalue"): clients,
    }
    filled = {labels: curves for labels, curves in panels.items() if curves}
    return draw_curves(filled) if filled else None


def _numbered(label: str, values: Sequence[float]) -> Curve:
    return Curve(label, range(1, 1 + len(values)), values)


def _blur(density: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and density: the point masses as bell curves."""
    nodes = np.ravel(density["nodes"])
    weights = np.ravel(density["weights"])
    weights = weights / weights.sum()
    width = (np.ptp(nodes[weights > 0]) or 1) / BLUR
    x = np.linspace(nodes.min() - 4 * width, nodes.max() + 4 * width, 1000)
    bells = np.exp(-(((x[:, None] - nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    y = bells @ weights
    return x, np.where(y > 1e-9 * y.max(), y, np.nan)


@dataclass(frozen=True)
class ClientMap:
    """Values of clients over rounds, for each of several runs.

    Attributes:
        title: what they are.
        clients: of all runs.
        rounds: of each run.
        values: of each run, float [clients, rounds]; NaN: not measured.
        scale: of all runs.
    """

    title: str
    clients: list[str]
    rounds: list[list[int]]
    values: list[np.ndarray]
    scale: Normalize


def draw_clients(results: Results) -> Figure | None:
    """Draw maps clients x rounds of what was measured of two or more rounds of a run.

    The largest eigenvalue of each client's locally updated model (Caldarola et al., ECCV 2022,
    figures 4 and 16), and norms of features and outputs (figure 7), which are means over classes. A
    column for each run; in a row all have one scale, which is logarithmic if values differ by a
    factor of 10 or more. What was not measured is blank; a map without a finite
    value is left out.
    """
    runs: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for path, result in results.items():
        folder = str(run_folder(Path(path))) if path.endswith(".pth") else path
        runs[folder][result["round"]] = result["quantities"]
    maps = []
    for title, (quantity, key) in BY_CLIENT.items():
        client_map = _client_map(title, list(runs.values()), quantity, key)
        if client_map is not None:
            maps.append(client_map)
    if not maps:
        return None
    figure = new_figure(5 * len(runs) + 1, 4 * len(maps))
    short = short_names(runs)
    grid = figure.subplots(len(maps), len(runs), squeeze=False)
    for panels, client_map in zip(grid, maps, strict=True):
        for number, (axes, run) in enumerate(zip(panels, runs, strict=True)):
            image = _draw_map(axes, client_map, number)
            axes.set(title=short[run], xlabel="round", ylabel="client")
        add_bar(figure, image, panels, client_map.title)
    return figure


def _client_map(
    title: str, runs: Sequence[Mapping[int, Mapping[str, Any]]], quantity: str, key: str
) -> ClientMap | None:
    """A value of clients over the rounds of runs; None without two rounds or a finite value."""
    tables = []
    clients: dict[str, None] = {}  # in the order of insertion
    for run in runs:
        table = {round_: run[round_].get(quantity, {}).get(key) for round_ in sorted(run)}
        tables.append({round_: row for round_, row in table.items() if row})
        for row in tables[-1].values():
            clients |= dict.fromkeys(row)
    if max(map(len, tables), default=0) < 2:
        return None
    values = []
    for table in tables:
        columns = [[_mean(row.get(client)) for client in clients] for row in table.values()]
        values.append(np.array(columns).reshape(len(table), len(clients)).T)
    everything = np.concatenate([array.ravel() for array in values])
    if not np.isfinite(everything).any():
        return None
    rounds = [list(table) for table in tables]
    return ClientMap(title, list(clients), rounds, values, find_scale(everything))


def _draw_map(axes: Any, client_map: ClientMap, number: int) -> Any:
    """The map of a run, given by its number; labels that would overprint are left out."""
    image = axes.imshow(
        client_map.values[number],
        norm=client_map.scale,
        cmap=MAP,
        aspect="auto",
        interpolation="nearest",
    )
    rounds = client_map.rounds[number]
    columns = readable_labels(range(len(rounds)), len(rounds), CLIENT_PANEL[0])
    axes.set_xticks(columns, [rounds[column] for column in columns], rotation=90)
    clients = client_map.clients
    rows = readable_labels(range(len(clients)), len(clients), CLIENT_PANEL[1])
    axes.set_yticks(rows, [clients[row] for row in rows])
    return image
