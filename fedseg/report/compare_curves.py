"""The curves of several runs in one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedseg.report.compare import Comparison
from fedseg.report.compare_sides import Side
from fedseg.report.drawing import (
    COLORS,
    moving_mean,
    new_figure,
    plain_axes,
    save_figure,
    smoothing_window,
    write_centered,
)
from fedseg.runs.metric_names import domain_label, main_metric, split_name
from fedseg.runs.run_files import RunFiles

COLUMNS = 3
# A run is known by its color, its dashes and the letter at its end.
DASHES = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 4)))
LABEL_HEIGHT = 0.062  # of the axes: how far apart two letters must be


def draw_curves(comparison: Comparison, path: Path) -> Path:
    """Training loss, and the main metric of every domain, over the rounds; a line for each run.

    The loss of each round is pale, its moving mean is the line.

    Args:
        comparison: of the runs.
        path: the PNG.
    """
    sides = comparison.sides
    runs = [run for side in sides for run in side.runs]
    metric = main_metric(comparison.metrics)
    names = [n for n in comparison.metrics if split_name(n)[1] == metric]
    names = [n for n in names if any(len(run.series(n)) > 1 for run in runs)]  # a curve, no point
    domains = [split_name(name)[0] for name in names]
    columns = 2 if len(names) == 3 else min(COLUMNS, 1 + len(names))  # four are a square
    rows = -(-(1 + len(names)) // columns)
    figure = new_figure(max(5 * columns, 7), 3.7 * rows + 0.25 * len(sides))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[1 + len(names) :]:
        axes.set_axis_off()
    for axes in panels[: 1 + len(names)]:
        axes.set_xlabel("round")
        axes.set_xlim(0, max(run.rounds for run in runs))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        plain_axes(axes)
    _draw_loss(panels[0], sides)
    for axes, name, domain in zip(panels[1:], names, domains, strict=False):
        axes.set_title(domain_label(domain, domains), fontsize=11)
        axes.set_ylabel(f"{metric} (%)" if metric in ("mIoU", "accuracy") else str(metric))
        _draw_lines(axes, [[run.series(name) for run in side.runs] for side in sides], sides)
    handles = [
        Line2D([], [], **_style(number), linewidth=2, label=_name(side))
        for number, side in enumerate(sides)
    ]
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=10)
    return save_figure(figure, path)


def _name(side: Side) -> str:
    seeds = ", ".join(str(run.seed) for run in side.runs if run.seed is not None)
    word = "seeds" if len(side.runs) > 1 else "seed"
    return f"{side.label}  {side.first.name}" + (f", {word} {seeds}" if seeds else "")


def _style(number: int) -> dict[str, Any]:
    # beyond six runs, colors meet other dashes than before
    dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
    return {"color": COLORS[number % len(COLORS)], "linestyle": dashes}


def _draw_loss(axes: Any, sides: Sequence[Side]) -> None:
    axes.set_title("training loss", fontsize=11)
    axes.set_ylabel("mean local loss")
    for number, side in enumerate(sides):
        for run in side.runs:
            style = _style(number) | {"linestyle": "-", "alpha": 0.25, "linewidth": 0.8}
            axes.plot(list(run.losses), list(run.losses.values()), **style)
    _draw_lines(axes, [[mean_losses(run) for run in side.runs] for side in sides], sides)


def mean_losses(run: RunFiles) -> dict[int, float]:
    """The moving mean by round; without a history, the means from one evaluation to the next."""
    if run.losses:
        means = moving_mean(np.array(list(run.losses.values())), smoothing_window(len(run.losses)))
        return dict(zip(run.losses, means.tolist(), strict=True))
    if run.curves is None:
        return {}
    pairs = zip(run.curves.rounds, run.curves.loss, strict=True)
    return {round_: loss for round_, loss in pairs if loss is not None}


def _draw_lines(
    axes: Any, lines: Sequence[Sequence[dict[int, float]]], sides: Sequence[Side]
) -> None:
    """A line for each run, and the side's letter where its lines end."""
    ends: dict[int, tuple[int, float]] = {}
    for number, runs in enumerate(lines):
        runs = [points for points in runs if points]
        for points in runs:
            style = _style(number) | {"linewidth": 1.9 if len(runs) == 1 else 1.2}
            marker = "o" if len(points) == 1 else None
            axes.plot(list(points), list(points.values()), marker=marker, markersize=4, **style)
        if runs:
            values = [points[max(points)] for points in runs]
            ends[number] = max(max(points) for points in runs), float(np.mean(values))
    if not ends:
        write_centered(axes, "nothing was recorded")
        return
    low, high = axes.get_ylim()
    heights = apart([y for _, y in ends.values()], LABEL_HEIGHT * (high - low))
    for (number, (x, _)), height in zip(ends.items(), heights, strict=True):
        style = {"color": _style(number)["color"], "fontsize": 11, "fontweight": "bold"}
        axes.text(x, height, f" {sides[number].label}", va="center", **style)


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Values moved as little as possible (least squares) so that no two are nearer than ``gap``.

    Their order is kept. In that order, position minus ``gap`` times rank must not fall: an isotonic
    regression, by pooling neighbors that violate it.
    """
    order = np.argsort(values, kind="stable")
    pools: list[tuple[float, int]] = []  # mean and number of values that moved together
    for rank, index in enumerate(order):
        mean, count = float(values[index]) - gap * rank, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean = (before * number + mean * count) / (number + count)
            count += number
        pools.append((mean, count))
    levels = [mean for mean, count in pools for _ in range(count)]
    moved = np.empty(len(order))
    moved[order] = np.array(levels) + gap * np.arange(len(order))
    return moved.tolist()
