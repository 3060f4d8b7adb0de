"""Charts of a run: loss and figures over rounds, IoU by class."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from fedseg.runs.run_files import BY_DOMAIN, GLOBAL, RunFiles, class_table, domain_label

# Okabe and Ito's colours, which people with any colour vision tell apart (without yellow and black)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
SMOOTHED_FROM = 60  # rounds from which on a moving average helps the eye
DPI = 120
MOST_COLUMNS = 400  # of a heat map over rounds


def draw_curves(run: RunFiles, path: Path) -> Path:
    """Loss a round on the left, the main figure of every domain on the right, as a PNG."""
    figure = _figure(13, 4.4)
    loss_axes, figure_axes = figure.subplots(1, 2)
    name = run.results.get("name") or run.folder.name
    figure.suptitle(str(name), fontsize=12, fontweight="bold")
    _draw_loss(loss_axes, run)
    _draw_figures(figure_axes, run)
    rounds = max((r["round"] for r in run.history), default=1)
    for axes in (loss_axes, figure_axes):
        axes.set_xlabel("round")
        axes.set_xlim(0, max(rounds, 1) * 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _draw_loss(axes: Any, run: RunFiles) -> None:
    axes.set_title("training loss", fontsize=11)
    axes.set_ylabel("mean local loss")
    rounds = np.array([r["round"] for r in run.history])
    loss = np.array([np.nan if r.get("loss") is None else r["loss"] for r in run.history], float)
    if not np.isfinite(loss).any():
        _say(axes, "no loss was recorded")
        return
    smooth = len(rounds) >= SMOOTHED_FROM
    axes.plot(
        rounds,
        loss,
        color=COLOURS[0],
        alpha=0.35 if smooth else 1,
        linewidth=1 if smooth else 1.8,
        marker=None if len(rounds) > 30 else "o",
        markersize=3.5,
        label="each round",
    )
    if smooth:
        window = smoothing_window(len(rounds))
        axes.plot(
            rounds,
            moving_mean(loss, window),
            color=COLOURS[0],
            linewidth=2,
            label=f"mean of {window} rounds",
        )
        axes.legend(frameon=False)
    axes.set_ylim(bottom=min(0, float(np.nanmin(loss))))


def _draw_figures(axes: Any, run: RunFiles) -> None:
    metric = run.metric
    series = run.series(metric) if metric else {}
    axes.set_title(f"{metric or 'figures'} by domain", fontsize=11)
    axes.set_ylabel(f"{metric or 'figure'} (%)" if metric in ("mIoU", "accuracy") else str(metric))
    if not series:
        _say(axes, "nothing was evaluated")
        return
    window = run.results.get("last_rounds") or {}
    last, length = run.results.get("rounds"), window.get("rounds")
    if last and length and 1 < length < last:
        axes.axvspan(last - length, last, color="0.95", zorder=0)
        place = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": "0.5"}
        middle, bottom = (
            last - length / 2,
            blended_transform_factory(axes.transData, axes.transAxes),
        )
        axes.text(middle, 0.01, f"last {length} rounds", transform=bottom, **place)
    sets = list(dict.fromkeys(_set_of(domain) for domain in series))
    for domain, points in series.items():
        number = sets.index(_set_of(domain)) % len(COLOURS)
        style = "--" if domain.endswith(BY_DOMAIN) else ":" if domain.startswith(GLOBAL) else "-"
        value = points[-1][1]
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS[number],
            linestyle=style,
            linewidth=1.8,
            marker=MARKERS[number],
            markersize=4.5,
            markerfacecolor="white" if style != "-" else COLOURS[number],
            label=f"{domain_label(domain, series)}: {value:.1f}",
        )
    highest = max(v for points in series.values() for _, v in points)
    lowest = min(v for points in series.values() for _, v in points)
    axes.set_ylim(min(0, lowest), highest * 1.08 if highest > 0 else 1)
    # beside the axes: among the lines there is seldom room
    axes.legend(
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.02),
        title="last value",
        alignment="left",
    )


def _set_of(domain: str) -> str:
    return domain.removeprefix(GLOBAL).removesuffix(BY_DOMAIN)


def smoothing_window(rounds: int) -> int:
    """Rounds over which a loss is averaged to be read: all charts take the same."""
    return max(5, rounds // 25) if rounds >= SMOOTHED_FROM else 1


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred mean over what is there of each window; the window is shorter at both ends."""
    valid = np.isfinite(values)
    kernel = np.ones(window)
    total = np.convolve(np.where(valid, values, 0), kernel, mode="same")
    count = np.convolve(valid, kernel, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def draw_iou_by_class(
    domains: Mapping[str, Mapping[str, Any]],
    path: Path,
    palette: Sequence[Sequence[int]] | None = None,
) -> Path | None:
    """Heat map of the IoU of every class (rows) in every domain (columns), with the mIoU below.

    Args:
        domains: figures by domain, ``{"unseen": {"mIoU": 30.1, "IoU": {"road": 90.2, ...}}}``.
        path: the PNG.
        palette: RGB colours of the classes, shown beside their names.

    Returns:
        The path, or None if there is no IoU by class.
    """
    table = class_table(domains)
    if not table:
        return None
    columns = [d for d in domains if domains[d].get("IoU")]
    names = [*table, "mIoU"]
    values = [[table[c].get(d) for d in columns] for c in table]
    values.append([domains[d].get("mIoU") for d in columns])
    figure = _figure(2.6 + 1.45 * len(columns), 1.5 + 0.31 * len(names))
    axes = figure.add_subplot()
    colours = colormaps["YlGnBu"]
    beside = blended_transform_factory(axes.transAxes, axes.transData)
    beside += ScaledTranslation(-10 / 72, 0, figure.dpi_scale_trans)
    for row, line in enumerate(values):
        y = row if row < len(table) else row + 0.35  # the mean stands apart
        for column, value in enumerate(line):
            _draw_cell(axes, column, y, value, colours, bold=row == len(table))
        if palette is not None and row < min(len(palette), len(table)):
            colour = [c / 255 for c in palette[row]]
            axes.plot(0, y, "s", color=colour, markersize=9, transform=beside, clip_on=False)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(names) - 0.15, -0.5)
    axes.set_yticks([*range(len(table)), len(table) + 0.35], names)
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.set_xticks(range(len(columns)), [_two_lines(domain_label(d, columns)) for d in columns])
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", pad=20 if palette is not None else 4)
    axes.spines[:].set_visible(False)
    axes.set_title("IoU by class (%)", fontsize=12, fontweight="bold", pad=10)
    return _save(figure, path)


def draw_client_accuracy(found: Mapping[str, Any], path: Path, title: str = "") -> Path:
    """Heat map of the accuracy for each client (rows) over the evaluated rounds (columns).

    Clients are sorted by the class that they hold most of: what the model forgets from one round
    to another shows as horizontal bands that go dark.

    Args:
        found: the entry ``client_accuracy`` of a run's results.
        path: the PNG.
        title: above the picture.
    """
    rounds = np.asarray(found["rounds"])
    values = np.array(
        [[np.nan if v is None else v for v in line] for line in found["accuracy"]], dtype=float
    ).T
    main = np.asarray(found["main_class"])
    order = np.lexsort((np.arange(len(main)), main))
    shown = min(len(rounds), MOST_COLUMNS)
    columns = np.unique(np.linspace(0, len(rounds) - 1, shown).round().astype(int))
    figure = _figure(9.5, min(2 + 0.05 * max(len(main), 20), 8))
    axes = figure.add_subplot()
    image = axes.imshow(
        values[order][:, columns],
        aspect="auto",
        interpolation="nearest",
        cmap="cividis",
        vmin=0,
        vmax=100,
    )
    ticks = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), 8)).round().astype(int))
    axes.set_xticks(ticks, rounds[columns][ticks])
    axes.set_xlabel("round (evaluated ones, evenly spaced here)")
    ends = np.flatnonzero(np.diff(main[order])) + 0.5
    axes.set_ylabel(f"{len(main)} clients, by their main class")
    axes.set_yticks([])
    if len(ends) < 30:
        for end in ends:
            axes.axhline(end, color="white", linewidth=0.7)
        middles = (np.r_[-0.5, ends] + np.r_[ends, len(main) - 0.5]) / 2
        names = [found["classes"][c] for c in np.unique(main)]
        axes.set_yticks(middles, names)
        axes.tick_params(axis="y", length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("accuracy (%)")
    kind = "test images in each client's class mix"
    if found.get("images") == "train":
        kind = "each client's own training images"
    axes.set_title(f"{title + ': ' if title else ''}accuracy on {kind}", fontsize=11)
    return _save(figure, path)


def _draw_cell(
    axes: Any, column: int, y: float, value: float | None, colours: Any, bold: bool
) -> None:
    face = "0.95" if value is None else colours(value / 100)
    axes.add_patch(Rectangle((column - 0.49, y - 0.47), 0.98, 0.94, facecolor=face))
    dark = value is not None and value > 55
    axes.text(
        column,
        y,
        "–" if value is None else f"{value:.1f}",  # noqa: RUF001 (a dash, not a minus)
        ha="center",
        va="center",
        fontsize=9.5,
        fontweight="bold" if bold else "normal",
        color="white" if dark else "0.1",
    )


def _two_lines(label: str) -> str:
    return label.replace(" ", "\n", 1)


def _say(axes: Any, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.5")


def _figure(width: float, height: float) -> Figure:
    # not pyplot: it keeps global state and may want a display
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
