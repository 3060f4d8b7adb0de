"""Charts of a table for the page, made with Plotly: curves of its runs, a metric against another.

Text and background have no colors here: the page's style sheet gives them, in light and in dark.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from fedseg.leaderboard.benchmarks import Benchmark, Column
from fedseg.leaderboard.board import Board
from fedseg.runs.run_files import FoundRun

MOST_ROWS = 12  # of runs in a chart, the best ones
# at least 3.3 : 1 on the light and on the dark ground
COLORS = ("#2f86c9", "#d4661f", "#199a74", "#c05f99", "#a07c1a", "#5a8ca8", "#7d6bd0")
GRAY = "#808080"  # of published rows
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "star")
CLEAR = "rgba(0,0,0,0)"


@dataclass(frozen=True)
class Chart:
    """A chart and what it says."""

    title: str
    figure: str  # Plotly's JSON, in which no markup is left
    summary: str  # for who does not see it


def draw_charts(board: Board, benchmark: Benchmark) -> list[Chart]:
    """Draw the curves of a table's runs, and its first metric against the second."""
    if not board.has_runs(benchmark):
        return []
    lines = board.lines(benchmark)
    runs = lines[(lines["kind"] == "run") & lines["is_ranked"]]
    rows = runs.drop_duplicates("row").head(MOST_ROWS)
    charts = []
    metrics: dict[str, Column] = {column.metric: column for column in benchmark.columns}
    for column in metrics.values():
        chart = draw_curves(board, benchmark, rows, column)
        if chart is not None:
            charts.append(chart)
    if len(benchmark.columns) > 1 and benchmark.target is None:
        charts.append(draw_scatter(benchmark, lines[lines["is_ranked"]]))
    return charts


def draw_curves(
    board: Board, benchmark: Benchmark, rows: pd.DataFrame, column: Column
) -> Chart | None:
    """Draw a metric over the rounds: means over the seeds, and a band from least to greatest."""
    figure = go.Figure()
    ends = []
    for place, row in enumerate(rows.itertuples()):
        values = curve_values([board.runs[id_] for id_ in row.runs], column.metric)
        if values.empty:
            continue
        mean, color = values.mean(axis=1), COLORS[place % len(COLORS)]
        name = html.escape(row.method)
        if values.shape[1] > 1:
            figure.add_traces(_band(values, color))
        line = go.Scatter(
            x=list(mean.index),
            y=[round(value, 3) for value in mean],
            name=name,
            mode="lines+markers" if len(mean) < 10 else "lines",
            line={"color": color, "width": 2},
        )
        figure.add_trace(line)
        ends.append(f"{row.method} ends at {mean.iloc[-1]:.2f}")
    if not ends:
        return None
    if benchmark.target is not None:
        text = f"target {benchmark.target:g} %"
        figure.add_hline(
            y=benchmark.target, line={"dash": "dot", "color": GRAY}, annotation_text=text
        )
    label = column.label if benchmark.target is None else column.metric.rpartition("/")[2]
    title = f"{label} over rounds"
    return Chart(title, _json(figure, "round", f"{label} (%)"), f"{title}: {'; '.join(ends)}")


def curve_values(runs: Sequence[FoundRun], metric: str) -> pd.DataFrame:
    """A metric by evaluated round and seed, without rounds that a seed has no value of."""
    series = {}
    for run in runs:
        curves = run.results.curves
        values = curves.figures.get(metric, ())
        pairs = dict(zip(curves.rounds, values, strict=False))
        series[run.id] = pd.Series(pairs, dtype=float)
    return pd.DataFrame(series).dropna()


def _band(values: pd.DataFrame, color: str) -> list[go.Scatter]:
    """The lower and the upper edge of a band, filled between them."""
    style = {"mode": "lines", "line": {"width": 0, "color": color}, "showlegend": False}
    style |= {"x": list(values.index), "hoverinfo": "skip"}
    lower = go.Scatter(y=list(values.min(axis=1)), **style)
    upper = go.Scatter(y=list(values.max(axis=1)), fill="tonexty", opacity=0.3, **style)
    return [lower, upper]


def draw_scatter(benchmark: Benchmark, lines: pd.DataFrame) -> Chart:
    """Draw the first metric against the second, of runs and papers, without values in doubt."""
    down, right = benchmark.columns[:2]
    known = lines[lines["doubt"].isna()]
    points = known.pivot(index="row", columns="column", values="value")
    points = points.reindex(columns=[right.key, down.key]).dropna()
    rows = lines.drop_duplicates("row").set_index("row").loc[points.index]
    names = [html.escape(f"{row.method}, {row.source}") for row in rows.itertuples()]
    figure = go.Figure()
    counts = []
    for kind, symbol in (("published", "circle-open"), ("reproduced", "diamond-open")):
        chosen = (rows["kind"] == kind).to_numpy()
        if not chosen.any():
            continue
        trace = go.Scatter(
            x=list(points.loc[chosen, right.key]),
            y=list(points.loc[chosen, down.key]),
            text=[name for name, shown in zip(names, chosen, strict=True) if shown],
            name=kind,
            mode="markers",
            marker={"color": GRAY, "symbol": symbol, "size": 9},
        )
        figure.add_trace(trace)
        counts.append(f"{chosen.sum()} {kind} rows")
    points_of_runs = []
    for place, row in enumerate(rows[rows["kind"] == "run"].head(MOST_ROWS).itertuples()):
        x, y = points.loc[row.Index, [right.key, down.key]]
        marker = {"color": COLORS[place % len(COLORS)], "symbol": SYMBOLS[place % len(SYMBOLS)]}
        trace = go.Scatter(
            x=[x], y=[y], name=html.escape(row.method), mode="markers", marker=marker | {"size": 11}
        )
        figure.add_trace(trace)
        points_of_runs.append(f"{row.method} at {x:.2f}, {y:.2f}")
    title = f"{down.label} against {right.label}"
    text = f"{title}: {'; '.join([*counts, *points_of_runs])}"
    return Chart(title, _json(figure, right.header, down.header), text)


def _json(figure: go.Figure, x: str, y: str) -> str:
    """The figure for the page: on its background, with its font."""
    figure.update_layout(
        template="none",
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": "inherit", "size": 13},
        height=380,
        margin={"l": 55, "r": 10, "t": 10, "b": 45},
        legend={"orientation": "h", "y": -0.25, "yanchor": "top"},
        hoverlabel={"namelength": -1},
        showlegend=True,
    )
    figure.update_xaxes(title=html.escape(x), zeroline=False)
    figure.update_yaxes(title=html.escape(y), zeroline=False)
    return figure.to_json()
