"""A comparison of runs: tables for the terminal and as Markdown, the curves in one picture."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.markup import escape

from fedseg.checks import is_number
from fedseg.cli import wide_console
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.metric_names import MAIN_METRICS, SPREAD, Metric, domain_label, main_metric
from fedseg.report.compare import Comparison, Side
from fedseg.report.corruptions import corruption_table
from fedseg.report.drawing import (
    COLORS,
    draw_losses,
    draw_percentages,
    new_figure,
    plain_axes,
    round_axes,
    save_figure,
)
from fedseg.runs.tables import MISSING, Cell, TextTable, markdown_text, number_text, spread_table
from fedseg.units import format_bytes, format_duration

MANY = 4  # sides, from which on each has a row: columns for all would not fit
COLUMNS = 3  # of the picture
MOST_PANELS = 23  # besides the loss
LOGGED = {  # entry of the history -> title and label of its panel, where a run has it
    "norm_w": ("norm of the parameters", "||w||"),  # FedGloSS, figure 8
    "delta_eps": ("distance of FedGloSS' perturbation from the exact one", "delta_eps"),
}
# A run is known by its color and its dashes.
DASHES = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 4)))
STD = {
    "rounds": "std over rounds that both evaluated",
    "seeds": "std over seeds, divided by n - 1",
    "evaluations": "std over the evaluations of the last rounds",
}
COSTS = {  # title -> name of a cost -> (in words, its text)
    "cost": {
        "rounds": ("rounds", "{:,.0f}".format),
        "bytes_down": ("traffic to the clients", format_bytes),
        "bytes_up": ("traffic to the server", format_bytes),
        "bytes": ("traffic", format_bytes),
        "wall": ("wall time", format_duration),
        "train": ("training", format_duration),
        "aggregate": ("aggregation", format_duration),
        "evaluate": ("evaluation", format_duration),
        "rejected_updates": ("rejected updates", "{:,.0f}".format),
    },
    "norms in the last round": {
        "norm_w": ("parameters", "{:.4g}".format),
        "norm_delta": ("pseudo-gradient", "{:.4g}".format),
    },
}


def tables(comparison: Comparison) -> Iterator[TextTable]:
    """Runs, configs, conditions, metrics, cost, norms; without empty ones."""
    sides = comparison.sides
    rows = [_run_row(side) for side in sides]
    yield TextTable("runs", ("", "experiment", "seed", "rounds", "folder"), rows)
    labels = [side.label for side in sides]
    if comparison.config:
        yield _values("config: what differs", labels, comparison.config)
    if comparison.conditions:
        yield _values("versions, hardware and data: what differs", labels, comparison.conditions)
    if comparison.metrics:
        yield _metrics(comparison)
    if comparison.shares:
        yield _at_shares(comparison)
    yield from spread_table([(side.label, [run.last for run in side.runs]) for side in sides])
    yield from (table for title in COSTS if len((table := _costs(title, comparison)).head) > 1)


def _run_row(side: Side) -> tuple[str, ...]:
    run = side.first
    seeds = ", ".join(map(str, side.seeds)) or MISSING
    of = "" if run.results else f" of {run.planned:,}" if run.planned else " so far"
    return side.label, run.name, seeds, f"{run.rounds:,}{of}", str(side.path)


def _values(title: str, labels: Sequence[str], values: Mapping[str, Sequence[Any]]) -> TextTable:
    """A column for each side; of many sides a row for each value, with the sides that have it."""
    texts = {key: [_value_text(key, value) for value in row] for key, row in values.items()}
    if len(labels) < MANY:
        return TextTable(title, ("", *labels), [(key, *row) for key, row in texts.items()])
    lines = []
    for key, row in texts.items():
        for number, text in enumerate(dict.fromkeys(row)):
            having = [label for label, other in zip(labels, row, strict=True) if other == text]
            lines.append(("" if number else key, text, ", ".join(having)))
    return TextTable(title, ("", "", "in"), lines)


def _value_text(key: str, value: Any) -> str:
    if isinstance(value, str) and ("sha256" in key or key.endswith("checksum")):
        return f"{value[:12]}…"  # enough to tell two apart
    if isinstance(value, str) and value.isprintable():
        return value
    return repr(value)


def _metrics(comparison: Comparison) -> TextTable:
    sides, until = comparison.sides, comparison.until
    windows = {run.window.rounds for side in sides for run in side.runs}
    last = f"last {windows.pop()} rounds" if len(windows) == 1 else "last rounds"
    grouped = [name for name in comparison.metrics if f"{name}_worst10" in comparison.metrics]
    spread = {name + end for name in grouped for end in SPREAD}
    shown = {n: row for n, row in comparison.metrics.items() if n not in spread}
    metrics = [Metric.parse(name) for name in shown]
    domains = [metric.domain for metric in metrics]
    rows = []
    for metric, row_figures in zip(metrics, shown.values(), strict=True):
        label = f"{metric.metric}, {domain_label(metric.domain, domains)}"
        for number, (side, figures) in enumerate(zip(sides, row_figures, strict=True)):
            seeds = max(len(side.runs), len(sides[0].runs))
            some = figures.difference is not None and 1 < figures.difference.count < seeds
            row = ("" if number else label, side.label, _number(figures.last))
            row += (_number(figures.difference, "+", some), _number(figures.window, count=True))
            row += (_number(figures.paired, "+", count=True),)
            rows.append(row if until is None else row + _reached(figures.reached, side))
    reference = sides[0].label
    head = ("", "", "last", f"- {reference}", f"{last}: mean ± std")
    head += (f"paired difference to {reference} ± std",)
    if until is not None:
        head += (f"rounds until {until:g}", "traffic")
    return TextTable("metrics", head, rows, right=range(2, len(head)), group=len(sides))


def _at_shares(comparison: Comparison) -> TextTable:
    """The main metric in the windows that end at given shares of the rounds."""
    main = main_metric(comparison.metrics)
    names = [name for name in comparison.metrics if Metric.parse(name).metric == main]
    rows = [
        (name, s.label, *(number_text(comparison.at_share(s, name, n)) for n in comparison.shares))
        for name in names
        for s in comparison.sides
    ]
    head = ("", "", *(f"at {share:g} %" for share in comparison.shares))
    title = "mean over the window that ends at a share of the rounds"
    return TextTable(title, head, rows, range(2, len(head)), len(comparison.sides))


def _reached(reached: tuple[Cell, Cell | None] | None, side: Side) -> tuple[str, str]:
    first, sent = reached or (None, None)
    if first is None or sent is None:
        return MISSING if first is None else first.status, MISSING
    rounds = f"{first.value:,.0f}" + ("" if first.std is None else f" ± {first.std:,.0f}")
    if first.count < len(side.runs):
        rounds += f" ({first.count} of {len(side.runs)} seeds)"
    return rounds, format_bytes(sent.value)


def _number(cell: Cell | None, sign: str = "", count: bool = False) -> str:
    text = number_text(cell, sign)
    if cell is None or not count:
        return text
    over = cell.over.removesuffix("s") if cell.count == 1 else cell.over
    return f"{text} (unpaired)" if over == "unpaired" else f"{text} ({cell.count} {over})"


def _costs(title: str, comparison: Comparison) -> TextTable:
    """A row for each side: values, and in parentheses their ratios to the reference's."""
    head, columns = [""], [[side.label for side in comparison.sides]]
    for name, (word, text_of) in COSTS[title].items():
        costs, texts = comparison.costs(name), []
        for number, value in enumerate(costs):
            ratio = (
                f" ({value / costs[0]:.2f})" if value is not None and number and costs[0] else ""
            )
            texts.append(MISSING if value is None else f"{text_of(value)}{ratio}")
        if any(costs):
            head.append(word)
            columns.append(texts)
    rows = list(zip(*columns, strict=True))
    return TextTable(title, tuple(head), rows, right=range(1, len(head)))


def remarks(comparison: Comparison) -> list[str]:
    """Explain the deviations, and name what does not compare."""
    figures = [figures for row in comparison.metrics.values() for figures in row]
    cells = [cell for entry in figures for cell in (entry.window, entry.paired)]
    kinds = {cell.over for cell in cells if cell is not None and cell.std is not None}
    texts = []
    if kinds:
        texts.append("; ".join(f"± ({kind}): {STD[kind]}" for kind in STD if kind in kinds) + ".")
    if kinds & {"rounds", "evaluations"}:
        texts.append(
            "A deviation over rounds says how much a run moves, not how much another seed would "
            "differ: for that, compare folders of seeds."
        )
    return [*texts, *comparison.notes]


def draw_curves(sides: Sequence[Side], metrics: Iterable[str]) -> Figure:
    """Training loss, and of some metrics the main one in every domain, over the rounds."""
    runs, metrics = [run for side in sides for run in side.runs], list(metrics)
    main = main_metric(metrics)
    names = [name for name in metrics if Metric.parse(name).metric == main]
    # a curve where there is one, else points
    names = [n for n in names if any(len(run.series(n)) > 1 for run in runs)] or names
    domains = [Metric.parse(name).domain for name in names]
    titles = [domain_label(domain, domains) for domain in domains]
    if len(runs) == 1:
        titles = [
            f"{t}: {runs[0].last.get(n, math.nan):.1f}" for t, n in zip(titles, names, strict=True)
        ]
    panels = list(zip(titles, [main] * len(names), names, strict=True))
    del panels[MOST_PANELS:]  # the tables have them all
    logged = {n: [run.logged(n) for run in runs] for n in LOGGED}
    panels += [(*LOGGED[n], n) for n, series in logged.items() if any(series)]
    count = 1 + len(panels)
    columns = 2 if count == 4 else min(COLUMNS, count)  # four are a square
    rows = -(-count // columns)
    figure = new_figure(max(5 * columns, 7), 3.7 * rows + 0.25 * len(sides))
    loss, *charts = figure.subplots(rows, columns, squeeze=False).ravel()
    rounds = max(run.rounds for run in runs)
    round_axes(loss, rounds, "training loss", "mean local loss")
    for axes, (title, label, _) in zip(charts, panels, strict=False):
        round_axes(axes, rounds, title, label)
    for axes in charts[len(panels) :]:
        axes.set_axis_off()
    for side, style in _legend(figure, sides):
        for run in side.runs:
            draw_losses(loss, run.losses, **style)
            for axes, (*_, name) in zip(charts, panels, strict=False):
                points = run.logged(name) if name in LOGGED else run.series(name)
                marker = "o" if name not in LOGGED and len(points) == 1 else None
                axes.plot(list(points), list(points.values()), marker=marker, **style)
    return figure


def _legend(figure: Figure, sides: Sequence[Side]) -> list[tuple[Side, dict[str, Any]]]:
    """Color and dashes of each side, explained above the charts."""
    styles, handles = [], []
    for number, side in enumerate(sides):
        # beyond six runs, colors meet other dashes than before
        dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
        styles.append({"color": COLORS[number % len(COLORS)], "linestyle": dashes})
        seeds = f", seed {', '.join(map(str, side.seeds))}" if side.seeds else ""
        label = f"{side.label}  {side.name}{seeds}".strip()
        handles.append(Line2D([], [], **styles[-1], linewidth=2, label=label))
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=10)
    return list(zip(sides, styles, strict=True))


def draw_clients(sides: Sequence[Side]) -> Figure | None:
    """Share of clients (or domains) up to each mIoU or accuracy, by evaluated domain and side."""
    names = list(dict.fromkeys(n for side in sides for run in side.runs for n in run.clients))
    if not names:
        return None
    figure = new_figure(max(5 * len(names), 7), 3.7 + 0.25 * len(sides))
    charts = figure.subplots(1, len(names), squeeze=False)[0]
    styles = _legend(figure, sides)
    for axes, name in zip(charts, names, strict=True):
        axes.set(title=name, xlabel="mIoU or accuracy (%)", ylabel="share of them", ylim=(0, 1.02))
        plain_axes(axes)
        for side, style in styles:
            groups = [one for run in side.runs for one in run.clients.get(name, {}).values()]
            values = sorted(one[m] for one in groups for m in MAIN_METRICS if is_number(one.get(m)))
            if values:
                axes.ecdf(values, **style)
    return figure


def draw_corruptions(sides: Sequence[Side], severity: int | None = None) -> Figure | None:
    """Draw a heat map of the accuracy under each corruption (rows) by side, the mean over seeds.

    Args:
        sides: the runs.
        severity: of the corruptions, as in figures 6 and 8 of Caldarola et al., ECCV 2022 (5); None
            for the mean over the severities.

    Returns:
        The map, None without corrupted test sets.

    Raises:
        DataError: a run was not tested at this severity.
    """
    accuracies = [_accuracies_by_corruption(side, severity) for side in sides]
    names = dict.fromkeys(name for by_corruption in accuracies for name in by_corruption)
    if not names:
        return None
    rows = {}
    for name in sorted(names, key=lambda name: name == "mean"):
        rows[name.replace("_", " ")] = [by_corruption.get(name) for by_corruption in accuracies]
    labels = [f"{side.label}\n{side.name}" for side in sides]
    over = "mean over severities" if severity is None else f"severity {severity}"
    return draw_percentages(rows, labels, f"accuracy (%), {over}")


def _accuracies_by_corruption(side: Side, severity: int | None) -> dict[str, float]:
    """Corruption -> accuracy in percent, the mean over the side's seeds that have one."""
    values: dict[str, list[float]] = {}
    for run in side.runs:
        table = corruption_table(run.results.final) if run.results else None
        for name, row in (table or {}).items():
            column = "mean" if severity is None else severity
            if column not in row:
                tested = ", ".join(str(key) for key in row if key != "mean")
                raise DataError(
                    f"--severity: {run.name} was tested at {tested}, not at {severity}: choose one"
                )
            if row[column] is not None:
                values.setdefault(name, []).append(row[column])
    return {name: fmean(accuracies) for name, accuracies in values.items()}


def draw_trends(sides: Sequence[Side], metrics: Iterable[str]) -> Figure | None:
    """A panel for each side: its main metric over the rounds, the reference dashed, others pale.

    None for few sides, whose curves one panel can tell apart, and for many, which take minutes.
    """
    name = next(iter(metrics), None)
    if not MANY < len(sides) <= MOST_PANELS or name is None:
        return None
    columns = min(4, len(sides))
    rows = -(-len(sides) // columns)
    figure = new_figure(3.6 * columns, 2.8 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    rounds = max(run.rounds for side in sides for run in side.runs)
    for axes, side in zip(grid, sides, strict=False):
        for other in sorted(sides, key=lambda one: (one is side, one is sides[0])):
            style = {"color": "0.85", "linewidth": 0.8}
            if other is sides[0]:
                style = {"color": "0.3", "linewidth": 1.2, "linestyle": "--"}
            if other is side:
                style = {"color": COLORS[0], "linewidth": 1.8}
            for run in other.runs:
                points = run.series(name)
                axes.plot(list(points), list(points.values()), **style)
        round_axes(axes, rounds, f"{side.label}  {side.name}", Metric.parse(name).metric)
        axes.label_outer()
    for axes in grid[len(sides) :]:
        axes.set_axis_off()
    return figure


def print_comparison(comparison: Comparison) -> None:
    """Print tables and remarks; where standard output is no terminal, wide enough for each row."""
    console = wide_console()
    for table in tables(comparison):
        console.print(table.to_rich(), "")
    for remark in remarks(comparison):
        console.print(escape(remark), highlight=False)


def to_markdown(comparison: Comparison, picture: str) -> str:
    """Tables and remarks as Markdown, with the picture of the curves."""
    names = (markdown_text(side.name) for side in comparison.sides)
    parts = [f"# {' against '.join(names)}"]
    for table in tables(comparison):
        parts += [f"## {table.title[0].upper()}{table.title[1:]}", table.to_markdown()]
    lines = [f"- {markdown_text(remark)}" for remark in remarks(comparison)]
    if lines:
        parts += ["## Remarks", "\n".join(lines)]
    return "\n\n".join([*parts, f"![training loss and metrics over rounds]({picture})"]) + "\n"


def write_comparison(
    comparison: Comparison, folder: str | Path, severity: int | None = None
) -> list[Path]:
    """Write ``compare.md`` and the pictures of what the runs have, in place of earlier ones.

    Args:
        comparison: what is written.
        folder: where.
        severity: of the corruptions drawn; None for the mean over the severities.
    """
    path, picture = Path(folder) / "compare.md", Path(folder) / "curves.png"
    pictures = [save_figure(draw_curves(comparison.sides, comparison.metrics), picture)]
    more = {
        "clients": draw_clients(comparison.sides),
        "corruptions": draw_corruptions(comparison.sides, severity),
        "trends": draw_trends(comparison.sides, comparison.metrics),
    }
    drawn = {name: figure for name, figure in more.items() if figure is not None}
    for name in more.keys() - drawn.keys() if path.is_file() else ():  # of an earlier comparison
        (Path(folder) / f"{name}.png").unlink(missing_ok=True)
    pictures += [save_figure(figure, Path(folder) / f"{n}.png") for n, figure in drawn.items()]
    write_text(path, to_markdown(comparison, picture.name))
    return [path, *pictures]
