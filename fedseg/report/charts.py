"""Charts of a run: loss and metrics over rounds, IoU by class, accuracy for each client."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.checks import is_number
from fedseg.metric_names import (
    BY_DOMAIN,
    GLOBAL,
    GLOBAL_BY_DOMAIN,
    STANDARD,
    Metric,
    domain_label,
    main_metric,
)
from fedseg.report.drawing import (
    COLORS,
    MARKERS,
    draw_losses,
    draw_percentages,
    new_figure,
    round_axes,
    save_figure,
    write_centered,
)
from fedseg.runs.run_files import RunFiles

LINE_STYLES = {STANDARD: "-", BY_DOMAIN: "--", GLOBAL: ":", GLOBAL_BY_DOMAIN: "--"}


def draw_curves(run: RunFiles, path: Path) -> Path:
    """Loss of each round on the left, the main metric of every domain on the right, as a PNG."""
    figure = new_figure(13, 4.4)
    figure.suptitle(run.name, fontsize=12, fontweight="bold")
    left, right = figure.subplots(1, 2)
    round_axes(left, run.rounds, "training loss", "mean local loss")
    if run.losses:
        draw_losses(left, run.losses, COLORS[0])
    else:
        write_centered(left, "no loss was recorded")
    _draw_metric(right, run)
    return save_figure(figure, path)


def _draw_metric(axes: Any, run: RunFiles) -> None:
    names = run.curves.figures
    metric = main_metric(names)
    round_axes(axes, run.rounds, f"{metric or 'metrics'} by domain", metric)
    series = {
        one.domain: points
        for one in map(Metric.parse, names)
        if one.metric == metric and (points := run.series(str(one)))
    }
    if not series:
        write_centered(axes, "nothing was evaluated")
        return
    sets = list(dict.fromkeys(Metric.of(domain).set for domain in series))
    for domain, points in series.items():
        one = Metric.of(domain)
        number, style = sets.index(one.set) % len(COLORS), LINE_STYLES[one.view]
        value = points[max(points)]
        axes.plot(
            list(points),
            list(points.values()),
            color=COLORS[number],
            linestyle=style,
            linewidth=1.8,
            marker=MARKERS[number],
            markersize=4.5,
            markerfacecolor="white" if style != "-" else COLORS[number],
            label=f"{domain_label(domain, series)}: {value:.1f}",
        )
    axes.set_ylim(bottom=min(0, min(min(points.values()) for points in series.values())))
    # beside the axes: among the lines there is seldom room
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.02), "alignment": "left"}
    axes.legend(frameon=False, title="last value", **place)


def draw_iou_by_class(
    domains: Mapping[str, Mapping[str, Any]],
    path: Path,
    palette: Sequence[Sequence[int]] | None = None,
) -> Path | None:
    """Heat map of the IoU of every class (rows) in every domain (columns), with the mIoU below.

    A PNG; None if no domain has an IoU, as ``{"unseen": {"mIoU": 30.1, "IoU": {"road": 90.2}}}``
    has. ``palette``: RGB colors of the classes, shown beside their names.
    """
    columns = [d for d in domains if domains[d].get("IoU")]
    if not columns:
        return None
    names = dict.fromkeys(name for d in columns for name in domains[d]["IoU"])
    found = {name: [domains[d]["IoU"].get(name) for d in columns] for name in names}
    rows = {name: [v if is_number(v) else None for v in row] for name, row in found.items()}
    rows["mIoU"] = [domains[d].get("mIoU") for d in columns]
    labels = [domain_label(d, columns).replace(" ", "\n", 1) for d in columns]
    return draw_percentages(rows, labels, path, "IoU by class (%)", palette)


def draw_client_accuracy(found: Mapping[str, Any], path: Path, title: str = "") -> Path:
    """Heat map of the accuracy for each client (rows) over the evaluated rounds (columns); a PNG.

    Clients are sorted by the class that they hold most of: what the model forgets from one round
    to another shows as bands that go dark. ``found`` is ``client_accuracy`` of a run's results.
    """
    rounds = np.asarray(found["rounds"])
    values = np.array(found["accuracy"], dtype=float).T  # None is NaN
    main = np.asarray(found["main_class"])
    order = np.lexsort((np.arange(len(main)), main))
    figure = new_figure(9.5, min(2 + 0.05 * max(len(main), 20), 8))
    axes = figure.add_subplot()
    style = {"aspect": "auto", "interpolation": "nearest", "cmap": "cividis"}
    image = axes.imshow(values[order], vmin=0, vmax=100, **style)
    ticks = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), 8)).round().astype(int))
    axes.set_xticks(ticks, rounds[ticks])
    axes.set_xlabel("round (evaluated ones, evenly spaced here)")
    axes.set_ylabel(f"{len(main)} clients, by their main class")
    axes.set_yticks([])
    ends = np.flatnonzero(np.diff(main[order])) + 0.5
    if len(ends) < 30:
        for end in ends:
            axes.axhline(end, color="white", linewidth=0.7)
        middles = (np.r_[-0.5, ends] + np.r_[ends, len(main) - 0.5]) / 2
        axes.set_yticks(middles, [found["classes"][c] for c in np.unique(main)])
        axes.tick_params(axis="y", length=0)
    figure.colorbar(image, ax=axes, pad=0.01).set_label("accuracy (%)")
    kind = "test images in each client's class mix"
    if found.get("images") == "train":
        kind = "each client's own training images"
    axes.set_title(f"{title + ': ' if title else ''}accuracy on {kind}", fontsize=11)
    return save_figure(figure, path)
