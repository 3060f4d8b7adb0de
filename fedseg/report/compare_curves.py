"""The curves of several runs in one picture."""

from pathlib import Path

from matplotlib.lines import Line2D

from fedseg.report.compare import Comparison
from fedseg.report.drawing import (
    COLORS,
    draw_losses,
    new_figure,
    round_axes,
    save_figure,
)
from fedseg.runs.metric_names import domain_label, main_metric, split_name

COLUMNS = 3
# A run is known by its color and its dashes.
DASHES = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 4)))


def draw_curves(comparison: Comparison, path: Path) -> Path:
    """Training loss, and the main metric of every domain, over the rounds; a PNG.

    Every run has a line, in the color and dashes of its side.
    """
    sides = comparison.sides
    runs = [run for side in sides for run in side.runs]
    metric = main_metric(comparison.metrics)
    names = [n for n in comparison.metrics if split_name(n)[1] == metric]
    names = [n for n in names if any(len(run.series(n)) > 1 for run in runs)]  # a curve, no point
    domains = [split_name(name)[0] for name in names]
    titles = [domain_label(domain, domains) for domain in domains]
    norms = any(run.norms for run in runs)
    count = 1 + len(names) + norms
    columns = 2 if count == 4 else min(COLUMNS, count)  # four are a square
    rows = -(-count // columns)
    figure = new_figure(max(5 * columns, 7), 3.7 * rows + 0.25 * len(sides))
    loss, *panels = figure.subplots(rows, columns, squeeze=False).ravel()
    rounds = max(run.rounds for run in runs)
    round_axes(loss, rounds, "training loss", "mean local loss")
    for axes, title in zip(panels, titles, strict=False):
        round_axes(axes, rounds, title, metric)
    if norms:
        round_axes(panels[len(names)], rounds, "norm of the parameters", "||w||")
    for axes in panels[count - 1 :]:
        axes.set_axis_off()
    handles = []
    for number, side in enumerate(sides):
        # beyond six runs, colors meet other dashes than before
        dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
        style = {"color": COLORS[number % len(COLORS)], "linestyle": dashes}
        seeds = ", ".join(str(run.seed) for run in side.runs if run.seed is not None)
        label = f"{side.label}  {side.first.name}" + (f", seed {seeds}" if seeds else "")
        handles.append(Line2D([], [], **style, linewidth=2, label=label))
        for run in side.runs:
            draw_losses(loss, run.losses, **style)
            for axes, name in zip(panels, names, strict=False):
                points = run.series(name)
                marker = "o" if len(points) == 1 else None
                axes.plot(list(points), list(points.values()), marker=marker, **style)
            if norms:
                panels[len(names)].plot(list(run.norms), list(run.norms.values()), **style)
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=10)
    return save_figure(figure, path)
