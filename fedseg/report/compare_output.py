"""A comparison of runs: tables for the terminal and as Markdown, and its pictures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn
from matplotlib.figure import Figure

from fedseg.checks import is_number
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.metric_names import MAIN_METRICS, SPREAD, Metric, domain_label, main_metric
from fedseg.report.compare import Comparison, Side
from fedseg.report.corruptions import MEAN, corruption_label, corruption_table
from fedseg.report.figures import (
    COLORS,
    draw_percentages,
    new_figure,
    plain_axes,
    round_axes,
    save_figure,
)
from fedseg.report.tables import markdown_table, table_text
from fedseg.runs.run_files import RunFiles
from fedseg.runs.tables import MISSING, markdown_text
from fedseg.units import format_bytes, format_duration

MANY = 4  # sides, from which on each has a row: columns for all would not fit
PANELS_PER_ROW = 3
LARGEST_PANELS = 23  # besides the loss
LARGEST_POINTS = 400  # of a curve; of more, means over equal pieces are drawn
LOGGED = {  # entry of the history -> title and label of its panel, where a run has it
    "norm_w": ("norm of the parameters", "||w||"),  # FedGloSS, figure 8
    "delta_eps": ("distance of FedGloSS' perturbation from the exact one", "delta_eps"),
}
COSTS: Mapping[str, tuple[str, Callable[[float], str]]] = {  # name -> (in words, its text)
    "rounds": ("rounds", "{:,.0f}".format),
    "bytes_down": ("traffic to the clients", format_bytes),
    "bytes_up": ("traffic to the server", format_bytes),
    "bytes": ("traffic", format_bytes),
    "wall": ("wall time", format_duration),
    "train": ("training", format_duration),
    "aggregate": ("aggregation", format_duration),
    "evaluate": ("evaluation", format_duration),
    "rejected_updates": ("rejected updates", "{:,.0f}".format),
    "norm_w": ("norm of the parameters, last round", "{:.4g}".format),
    "norm_delta": ("norm of the pseudo-gradient, last round", "{:.4g}".format),
}
OVER_SEEDS = (
    "± is the standard deviation over seeds (divided by n - 1); differences are taken seed by seed."
)
SINGLE_RUNS = (
    "Each side is a single run: only several seeds tell whether a difference would come out again. "
    "Compare folders of seeds."
)


# ---------------------------------------------------------------- tables


def tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Tabulate runs, configs, conditions, metrics and costs as texts, by title; none is empty."""
    sides = comparison.sides
    all_tables = {
        "runs": pd.DataFrame([_run_row(side) for side in sides]).set_index(""),
        "config: what differs": _values_table(comparison.config),
        "versions, hardware and data: what differs": _values_table(comparison.conditions),
        "metrics": _metrics_table(comparison),
        "mean over the window that ends at a share of the rounds": _shares_table(comparison),
        "over clients or domains": _spread_table(comparison),
        "cost": _costs_table(comparison),
    }
    return {title: table for title, table in all_tables.items() if not table.empty}


def _run_row(side: Side) -> dict[str, str]:
    run = side.first
    rounds = f"{run.rounds:,}"
    if run.results is None:
        rounds += f" of {run.planned:,}" if run.planned else " so far"
    return {
        "": side.label,
        "experiment": run.name,
        "seed": ", ".join(str(seed) for seed in side.seeds) or MISSING,
        "rounds": rounds,
        "folder": str(side.path),
    }


def _values_table(values: pd.DataFrame) -> pd.DataFrame:
    """Tabulate a column for each side; of many sides a row for each value, with its sides."""
    texts = values.apply(lambda row: row.map(lambda value: _value_text(row.name, value)), axis=1)
    if len(values.columns) < MANY or values.empty:
        return texts
    rows = []
    for key, row in texts.iterrows():
        for text, having in row.groupby(row, sort=False):
            rows.append({"": key, "value": text, "in": ", ".join(having.index)})
    return _blank_repeated(pd.DataFrame(rows).set_index(""))


def _value_text(key: str, value: Any) -> str:
    if isinstance(value, str) and ("sha256" in key or key.endswith("checksum")):
        return f"{value[:12]}…"  # enough to tell two apart
    if isinstance(value, str) and value.isprintable():
        return value
    return repr(value)


def _blank_repeated(table: pd.DataFrame) -> pd.DataFrame:
    """Leave the name of a row out where it is that of the row before."""
    names = table.index.to_series()
    return table.set_axis(names.where(names != names.shift(), "").tolist(), axis=0)


def _metrics_table(comparison: Comparison) -> pd.DataFrame:
    """Tabulate last values, means of the last rounds and their differences to the reference."""
    windows = {run.window.rounds for side in comparison.sides for run in side.runs}
    window = f"last {windows.pop()} rounds" if len(windows) == 1 else "last rounds"
    reference = comparison.sides[0].label
    spread = _spread_names(comparison)
    names = [name for name in comparison.metrics if name not in spread]
    domains = [Metric.parse(name).domain for name in names]
    rows = []
    for name in names:
        metric = Metric.parse(name)
        label = f"{metric.metric}, {domain_label(metric.domain, domains)}"
        for side in comparison.sides:
            last, mean = (
                table.reindex([(name, side.label)]).iloc[0]
                for table in (comparison.last, comparison.window)
            )
            row = {
                "": label,
                "side": side.label,
                "last": mean_text(last),
                f"last - {reference}": difference_text(last, side, comparison.sides[0]),
                window: mean_text(mean),
                f"{window} - {reference}": difference_text(mean, side, comparison.sides[0]),
            }
            if comparison.until is not None:
                row.update(_reached_texts(comparison, name, side))
            rows.append(row)
    if not rows:
        return pd.DataFrame()
    return _blank_repeated(pd.DataFrame(rows).set_index(""))


def _mean_texts(values: pd.DataFrame) -> pd.Series:
    return pd.Series([mean_text(row) for _, row in values.iterrows()], values.index, dtype=object)


def mean_text(row: pd.Series) -> str:
    """Write ``50.03 ± 0.41`` of a row of :func:`fedseg.report.compare.compare_seeds`."""
    if pd.isna(row["mean"]):
        return MISSING
    return f"{row['mean']:.2f}{_deviation_text(row['std'])}"


def difference_text(row: pd.Series, side: Side, reference: Side) -> str:
    """Write ``+1.20 ± 0.30``, and over which seeds if not over all."""
    if pd.isna(row["difference"]):
        return MISSING
    text = f"{row['difference']:+.2f}{_deviation_text(row['difference_std'])}"
    seeds = max(len(side.runs), len(reference.runs))
    if row["pairs"] == 0:
        text += " (unpaired)"
    elif row["pairs"] < seeds:
        text += f" ({row['pairs']:.0f} of {seeds} seeds)"
    return text


def _deviation_text(std: float) -> str:
    return "" if pd.isna(std) else f" ± {std:.2f}"


def _reached_texts(comparison: Comparison, name: str, side: Side) -> dict[str, str]:
    """Write the rounds and the traffic until a run reached the target, means over its seeds."""
    reached = comparison.reached
    runs = reached[(reached["metric"] == name) & (reached["side"] == side.label)]
    rounds = traffic = MISSING
    if len(runs) and runs["round"].isna().all():
        rounds = "not reached"
    elif len(runs):
        rounds = f"{runs['round'].mean():,.0f}"
        std = runs["round"].std()
        if not pd.isna(std):
            rounds += f" ± {std:,.0f}"
        count = runs["round"].count()
        if count < len(side.runs):
            rounds += f" ({count} of {len(side.runs)} seeds)"
        traffic = format_bytes(runs["bytes"].mean())
    return {f"rounds until {comparison.until:g}": rounds, "traffic": traffic}


def _shares_table(comparison: Comparison) -> pd.DataFrame:
    """Tabulate the main metric in the windows that end at given shares of the rounds."""
    columns = {}
    for share, values in comparison.shares.items():
        columns[f"at {share:g} %"] = _mean_texts(values)
    if not columns:
        return pd.DataFrame()
    table = pd.concat(columns, axis=1, sort=False).fillna(MISSING).reset_index("side")
    return _blank_repeated(table)


def _spread_names(comparison: Comparison) -> set[str]:
    """Name the metrics over clients or domains."""
    grouped = [name for name in comparison.metrics if f"{name}_worst10" in comparison.metrics]
    return {f"{name}{end}" for name in grouped for end in SPREAD}


def _spread_table(comparison: Comparison) -> pd.DataFrame:
    """Tabulate mIoU or accuracy over clients or domains, if any is."""
    texts = _mean_texts(comparison.last)
    rows = []
    for name in comparison.metrics:
        if f"{name}_worst10" not in comparison.metrics:
            continue
        if Metric.parse(name).metric not in MAIN_METRICS:
            continue
        for side in comparison.sides:
            row = {"metric": name, "side": side.label}
            for end, words in {"": "all images", **SPREAD}.items():
                row[words] = texts.get((f"{name}{end}", side.label), MISSING)
            rows.append(row)
    if not rows:
        return pd.DataFrame()
    return _blank_repeated(pd.DataFrame(rows).set_index("metric"))


def _costs_table(comparison: Comparison) -> pd.DataFrame:
    """Tabulate costs, means over seeds, with their ratios to the reference's in parentheses."""
    labels = [side.label for side in comparison.sides]
    means = comparison.costs.groupby("side").mean().reindex(labels)
    columns = {}
    for name, (words, text_of) in COSTS.items():
        if name not in means or not means[name].any():
            continue
        costs = means[name]
        texts = []
        for label, cost in costs.items():
            text = MISSING if pd.isna(cost) else text_of(cost)
            if label != labels[0] and not pd.isna(cost) and costs[labels[0]] > 0:
                text += f" ({cost / costs[labels[0]]:.2f})"
            texts.append(text)
        columns[words] = pd.Series(texts, labels)
    table = pd.DataFrame(columns)
    return table if len(labels) >= MANY else table.T


def remarks(comparison: Comparison) -> list[str]:
    """Explain the deviations, and name what does not compare."""
    texts = []
    if any(len(side.runs) > 1 for side in comparison.sides):
        texts.append(OVER_SEEDS)
    elif comparison.metrics:
        texts.append(SINGLE_RUNS)
    return [*texts, *comparison.notes]


def print_comparison(comparison: Comparison) -> None:
    """Print tables and remarks."""
    for title, table in tables(comparison).items():
        print(table_text(title, table))
    print()
    for remark in remarks(comparison):
        print(remark)


def to_markdown(comparison: Comparison, picture: str) -> str:
    """Write tables and remarks as Markdown, with the picture of the curves."""
    names = [markdown_text(side.name) for side in comparison.sides]
    parts = [f"# {' against '.join(names)}"]
    for title, table in tables(comparison).items():
        parts += [f"## {title[0].upper()}{title[1:]}", markdown_table(table)]
    lines = [f"- {markdown_text(remark)}" for remark in remarks(comparison)]
    if lines:
        parts += ["## Remarks", "\n".join(lines)]
    return "\n\n".join([*parts, f"![training loss and metrics over rounds]({picture})"]) + "\n"


# ---------------------------------------------------------------- pictures


def draw_curves(sides: Sequence[Side], metrics: Iterable[str]) -> Figure:
    """Draw training loss, and of some metrics the main one in every domain, over the rounds.

    Seeds are a line, their mean, within a band of their standard deviation.
    """
    panels = _curve_panels(sides, list(metrics))
    count = len(panels)
    columns = 2 if count == 4 else min(PANELS_PER_ROW, count)  # four are a square
    rows = -(-count // columns)
    figure = new_figure(max(5 * columns, 7), 3.7 * rows + 0.25 * len(sides))
    charts = figure.subplots(rows, columns, squeeze=False).ravel()
    rounds = max(run.rounds for side in sides for run in side.runs)
    labels = [_legend_label(side) for side in sides]
    for axes, (title, label, series_of) in zip(charts, panels, strict=False):
        curves = curve_frame(sides, series_of)
        _draw_lines(axes, curves, labels)
        round_axes(axes, rounds, title, label)
    for axes in charts[count:]:
        axes.set_axis_off()
    _share_legend(figure)
    return figure


def _curve_panels(
    sides: Sequence[Side], metrics: Sequence[str]
) -> list[tuple[str, str, Callable[[RunFiles], Mapping[int, float]]]]:
    """List the panels: title, label of the axis, the series of a run."""
    runs = [run for side in sides for run in side.runs]
    main = main_metric(metrics)
    names = [name for name in metrics if Metric.parse(name).metric == main]
    curved = [name for name in names if any(len(run.series(name)) > 1 for run in runs)]
    names = (curved or names)[:LARGEST_PANELS]  # a curve where there is one; tables have them all
    domains = [Metric.parse(name).domain for name in names]
    panels: list[Any] = [("training loss", "mean local loss", lambda run: run.losses)]
    for name, domain in zip(names, domains, strict=True):
        title = domain_label(domain, domains)
        if len(runs) == 1:
            title += f": {runs[0].last.get(name, math.nan):.1f}"
        panels.append((title, main, lambda run, name=name: run.series(name)))
    for name, (title, label) in LOGGED.items():
        if any(run.logged(name) for run in runs):
            panels.append((title, label, lambda run, name=name: run.logged(name)))
    return panels


def curve_frame(
    sides: Sequence[Side], series_of: Callable[[RunFiles], Mapping[int, float]]
) -> pd.DataFrame:
    """Collect a series of every run: columns ``side`` (its number), ``round``, ``value``.

    A run with more than :data:`LARGEST_POINTS` points has means over equal pieces instead.
    """
    frames = [pd.DataFrame(columns=["side", "round", "value"])]
    for number, side in enumerate(sides):
        for run in side.runs:
            series = series_of(run)
            points = pd.DataFrame({"round": list(series), "value": list(series.values())})
            piece = -(-len(points) // LARGEST_POINTS)
            if piece > 1:
                points = points.groupby(points.index // piece).mean()
            frames.append(points.assign(side=number))
    return pd.concat([frame for frame in frames if len(frame)] or frames)


def _draw_lines(axes: Any, curves: pd.DataFrame, labels: Sequence[str]) -> None:
    """Draw a line for each side, with the band of its seeds."""
    if curves.empty:
        return
    counts = curves.groupby("side")["round"].agg(["nunique", "size"])
    seeds = (counts["size"] > counts["nunique"]).any()
    single = counts["nunique"].max() == 1  # a point, which a line does not show
    seaborn.lineplot(
        curves.assign(side=[labels[number] for number in curves["side"]]),
        x="round",
        y="value",
        hue="side",
        hue_order=labels,
        palette=[COLORS[number % len(COLORS)] for number in range(len(labels))],
        style="side",
        style_order=labels,
        estimator="mean" if seeds else None,
        errorbar="sd" if seeds else None,
        markers=["o"] * len(labels) if single else None,
        legend="full",
        ax=axes,
    )


def _legend_label(side: Side) -> str:
    seeds = ", ".join(str(seed) for seed in side.seeds)
    text = f"{side.label}  {side.name}"
    if seeds:
        text += f", seed {seeds}"
    return text.strip()


def _share_legend(figure: Figure) -> None:
    """Move the legend of the charts, which is the same in all, above them."""
    legends = [axes.legend_ for axes in figure.axes if axes.legend_ is not None]
    for legend in legends:
        legend.remove()
    if legends:
        labels = [text.get_text() for text in legends[0].get_texts()]
        style = {"loc": "outside upper left", "frameon": False, "fontsize": 10}
        figure.legend(legends[0].legend_handles, labels, **style)


def draw_trends(sides: Sequence[Side], metrics: Iterable[str]) -> Figure | None:
    """Draw a panel for each side: its main metric over the rounds, the others pale behind it.

    Returns:
        The figure; None for few sides, whose curves one panel can tell apart, and for many.
    """
    name = next(iter(metrics), None)
    if not MANY < len(sides) <= LARGEST_PANELS or name is None:
        return None
    columns = min(4, len(sides))
    rows = -(-len(sides) // columns)
    figure = new_figure(3.6 * columns, 2.8 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    rounds = max(run.rounds for side in sides for run in side.runs)
    curves = curve_frame(sides, lambda run: run.series(name))
    means = curves.groupby(["side", "round"], as_index=False)["value"].mean()
    for number, (axes, side) in enumerate(zip(grid, sides, strict=False)):
        style = {"x": "round", "y": "value", "estimator": None, "errorbar": None, "ax": axes}
        background = means[(means["side"] != number) & (means["side"] != 0)]
        seaborn.lineplot(background, units="side", color="0.85", linewidth=0.8, **style)
        if number > 0:
            reference = means[means["side"] == 0]
            seaborn.lineplot(reference, color="0.3", linewidth=1.2, linestyle="--", **style)
        seaborn.lineplot(means[means["side"] == number], color=COLORS[0], linewidth=1.8, **style)
        round_axes(axes, rounds, f"{side.label}  {side.name}", Metric.parse(name).metric)
        axes.label_outer()
    for axes in grid[len(sides) :]:
        axes.set_axis_off()
    return figure


def draw_clients(sides: Sequence[Side]) -> Figure | None:
    """Draw the share of clients (or domains) up to each mIoU or accuracy, by evaluated domain."""
    rows = []
    for side in sides:
        for run in side.runs:
            for domain, groups in run.clients.items():
                for entry in groups.values():
                    values = [entry[m] for m in MAIN_METRICS if is_number(entry.get(m))]
                    rows.extend((domain, _legend_label(side), value) for value in values)
    if not rows:
        return None
    values = pd.DataFrame(rows, columns=["domain", "side", "value"])
    domains = values["domain"].unique()
    labels = [_legend_label(side) for side in sides]
    figure = new_figure(max(5 * len(domains), 7), 3.7 + 0.25 * len(sides))
    charts = figure.subplots(1, len(domains), squeeze=False)[0]
    palette = [COLORS[number % len(COLORS)] for number in range(len(sides))]
    for axes, domain in zip(charts, domains, strict=True):
        of_domain = values[values["domain"] == domain]
        seaborn.ecdfplot(
            of_domain, x="value", hue="side", hue_order=labels, palette=palette, ax=axes
        )
        axes.set(title=domain, xlabel="mIoU or accuracy (%)", ylabel="share of them")
        axes.set_ylim(0, 1.02)
        plain_axes(axes)
    _share_legend(figure)
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
    accuracies = {f"{side.label}\n{side.name}": _accuracies(side, severity) for side in sides}
    table = pd.concat(accuracies, axis=1, sort=False)
    if table.empty:
        return None
    table = table.reindex([name for name in table.index if name != MEAN] + [MEAN])
    table.index = table.index.map(corruption_label)
    over = "mean over severities" if severity is None else f"severity {severity}"
    return draw_percentages(table, f"accuracy (%), {over}")


def _accuracies(side: Side, severity: int | None) -> pd.Series:
    """Average the accuracy in percent by corruption over the side's seeds that have one."""
    columns = []
    for run in side.runs:
        table = corruption_table(run.results.final) if run.results else None
        if table is None:
            continue
        column = MEAN if severity is None else severity
        if column not in table:
            tested = ", ".join(str(key) for key in table if key != MEAN)
            raise DataError(
                f"--severity: {run.name} was tested at {tested}, not at {severity}: choose one"
            )
        columns.append(table[column])
    if not columns:
        return pd.Series(dtype=float)
    return pd.concat(columns, axis=1, sort=False).mean(axis=1)


def write_comparison(
    comparison: Comparison, folder: str | Path, severity: int | None = None
) -> list[Path]:
    """Write ``compare.md`` and the pictures of what the runs have, in place of earlier ones.

    Args:
        comparison: what is written.
        folder: where.
        severity: of the corruptions drawn; None for the mean over the severities.
    """
    folder = Path(folder)
    page = folder / "compare.md"
    figures = {
        "curves": draw_curves(comparison.sides, comparison.metrics),
        "clients": draw_clients(comparison.sides),
        "corruptions": draw_corruptions(comparison.sides, severity),
        "trends": draw_trends(comparison.sides, comparison.metrics),
    }
    paths = [page]
    for name, figure in figures.items():
        path = folder / f"{name}.png"
        if figure is not None:
            paths.append(save_figure(figure, path))
        elif page.is_file():  # the picture is of an earlier comparison
            path.unlink(missing_ok=True)
    write_text(page, to_markdown(comparison, "curves.png"))
    return paths
