"""The board's values as one frame: of runs, averaged over seeds, and of papers; their ranks."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pandas as pd

from fedseg.checks import is_number, shown
from fedseg.config.roles import METHOD, PROTOCOL, select
from fedseg.leaderboard.benchmarks import Benchmark, Column, records_of
from fedseg.leaderboard.methods import Method, method_of_record, method_of_results
from fedseg.leaderboard.reference import Published, read_json
from fedseg.metric_names import flatten
from fedseg.runs.curvature_files import measured_value
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import Results
from fedseg.runs.tables import differing, group_seeds

DOUBT = "?"  # beside a value that nothing is ranked against
TEXT_FIELDS = ["value", "std", "doubt", "status", "digits"]  # arguments of value_text
# why there is no value -> its words
STATUS = {
    "lost": "not readable",
    "not_reached": "not reached",
    "no_convergence": "no convergence",
}


@dataclass(frozen=True)
class Sample:
    """The value of one run, or of a paper, in a column of a table."""

    column: str  # its key
    value: float | None
    stated_std: float | None = None  # of a paper
    doubt: str | None = None  # why it is not ranked although it has a value
    status: str | None = None  # why it has no value, such as "not_reached"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table: runs that differ in their seed only, or a method of a paper."""

    kind: str  # "run", "published", or "reproduced" by a run that the suite ships
    method: Method
    samples: Sequence[Sample] = field(default_factory=list)
    is_ranked: bool = True
    experiment: str = ""  # name of the runs
    paper: str = ""  # short name of the paper, as are the next three
    table: str = ""
    paper_title: str = ""
    also: tuple[str, ...] = ()  # further tables that hold some of its cells
    url: str = ""
    seeds: tuple[int, ...] = ()  # of the runs
    runs: tuple[str, ...] = ()  # ids of the runs, in the order of the seeds
    bytes: float | None = None  # traffic of a run, both ways, mean over the runs
    seconds: float | None = None  # wall time of a run, mean over the runs
    rounds: int | None = None  # of a run
    year: int | None = None  # of the paper, or in which the last run was finished, if all say it
    command: str = ""  # of a reproduced row
    reasons: tuple[str, ...] = ()  # why the runs are not comparable with published numbers

    @property
    def source(self) -> str:
        """Paper and table, or the experiment's name."""
        return f"{self.paper} {self.table}" if self.kind == "published" else self.experiment


# ---------------------------------------------------------------- runs


def run_rows(
    benchmark: Benchmark, runs: Sequence[FoundRun], reasons: tuple[str, ...] = ()
) -> list[Row]:
    """Make the rows of some runs; where method and name are one, the options that differ are named.

    Args:
        benchmark: the table.
        runs: its runs.
        reasons: why they are not comparable with published numbers.
    """
    groups = group_seeds(runs, lambda run: run.results)
    rows = [replace(run_row(benchmark, group), reasons=reasons) for group in groups]
    options = [select(group[0].results.config, METHOD, PROTOCOL) for group in groups]
    alike: dict[tuple[Method, str], list[Mapping[str, Any]]] = {}
    for row, values in zip(rows, options, strict=True):
        alike.setdefault((row.method, row.experiment), []).append(values)
    named = []
    for row, values in zip(rows, options, strict=True):
        keys = differing(alike[row.method, row.experiment])
        words = [f"{key} {shown(values[key])}" for key in keys if key in values]
        extra = ", ".join(filter(None, [row.method.extra, *words])) or None
        named.append(replace(row, method=replace(row.method, extra=extra)))
    return named


def run_row(benchmark: Benchmark, group: Sequence[FoundRun]) -> Row:
    """Make the row of one experiment's runs, which differ in their seed."""
    results = [run.results for run in group]
    usual = results[0].local_epochs
    if benchmark.setting is not None:
        usual = benchmark.setting.local_epochs
    traffic = [r.communication.bytes_down + r.communication.bytes_up for r in results]
    seconds = [r.seconds["wall"] for r in results if "wall" in r.seconds]
    years = [r.year for r in results if r.year is not None]
    samples = [
        _run_sample(r, column, benchmark) for column in benchmark.all_columns for r in results
    ]
    return Row(
        kind="run",
        method=method_of_results(results[0], usual),
        samples=samples,
        experiment=results[0].name,
        seeds=tuple(r.seed for r in results),
        runs=tuple(run.id for run in group),
        bytes=statistics.fmean(traffic),
        seconds=statistics.fmean(seconds) if seconds else None,
        rounds=results[0].rounds,
        year=max(years) if len(years) == len(results) else None,
    )


def _run_sample(results: Results, column: Column, benchmark: Benchmark) -> Sample:
    value = value_of(results, column, benchmark)
    if value is not None:
        return Sample(column.key, value)
    missing = "not_reached" if column.statistic.endswith("_to_target") else "missing"
    return Sample(column.key, None, status=missing)


def value_of(results: Results, column: Column, benchmark: Benchmark) -> float | None:
    """A run's value in a column, or None."""
    match column.statistic:
        case "window":
            return results.last_rounds.mean.get(column.metric)
        case "final":
            value = flatten(results.final).get(column.metric)
            return float(value) if is_number(value) else None
        case "rounds_to_target" | "traffic_to_target":
            return _value_at_target(results, column, benchmark)
        case "parameters":
            return results.model.parameters / 1e6
        case "seconds":
            wall = results.seconds.get("wall")
            return None if wall is None else wall / results.completed_rounds
        case "epsilon":
            value = (results.extras.get("privacy") or {}).get("epsilon")
            return value if is_number(value) else None
        case "curvature":
            return measured_value(results, column.metric)
        case _:  # published alone
            return None


def _value_at_target(results: Results, column: Column, benchmark: Benchmark) -> float | None:
    reached = results.curves.reach(column.metric, benchmark.target)
    if reached is None:
        return None
    round_, sent = reached
    if column.statistic == "rounds_to_target":
        return float(round_)
    return sent / fedavg_bytes(results.model.parameters, benchmark)


def fedavg_bytes(parameters: int, benchmark: Benchmark) -> int:
    """Traffic of FedAvg's whole run: every parameter, 4 bytes, both ways."""
    setting = benchmark.setting
    return 8 * parameters * setting.clients_per_round * setting.rounds


def reproduced_rows(benchmark: Benchmark, runs: Iterable[FoundRun]) -> list[Row]:
    """Make the rows of the runs behind docs/results.md, but for those that are among ``runs``."""
    known = {run.results.experiment_sha256 for run in runs}
    rows = []
    for facts in read_json("reproduced.json")["rows"]:
        if facts["benchmark"] != benchmark.id or facts["experiment_sha256"] in known:
            continue
        row = Row(
            kind="reproduced",
            method=Method(**facts["method"]),
            samples=[Sample(key, value) for key, value in facts["cells"].items()],
            experiment=facts["name"],
            seeds=tuple(facts["seeds"]),
            bytes=facts["bytes"],
            seconds=facts["seconds"],
            rounds=facts["rounds"],
            year=facts["year"],
            command=facts["command"],
        )
        rows.append(row)
    return rows


# ---------------------------------------------------------------- papers


@cache
def published_rows(benchmark: Benchmark) -> tuple[Row, ...]:
    """Make a row for each method of each paper, in the order of their tables.

    Not ranked are centralized training, variants that a paper tries besides its method, methods
    with further metrics alone, and rows that are lost in the text that was read. Where tables of
    one paper share a cell, the one without a doubt counts, then the one with a deviation, then the
    first.
    """
    records: dict[tuple[str, Method], dict[str, list[Published]]] = {}
    ranked = set()
    for record in records_of(benchmark.setting):
        column = benchmark.column_of(record)
        if column is None:
            continue
        key = record.paper, method_of_record(record, benchmark.setting.local_epochs)
        records.setdefault(key, {}).setdefault(column.key, []).append(record)
        if benchmark.is_ranked(record) and column in benchmark.columns:
            ranked.add(key)
    rows = []
    for (paper, method), cells in records.items():
        row = _published_row(method, cells, benchmark)
        main = {column.key for column in benchmark.columns}
        is_lost = all(s.status == "lost" for s in row.samples if s.column in main)
        rows.append(replace(row, is_ranked=(paper, method) in ranked and not is_lost))
    return tuple(rows)


def _published_row(
    method: Method, records: Mapping[str, Sequence[Published]], benchmark: Benchmark
) -> Row:
    def preference(record: Published) -> tuple[bool, ...]:
        return record.value is None, benchmark.doubt(record) is not None, record.std is None

    keys = [column.key for column in benchmark.all_columns if column.key in records]
    chosen = {key: min(records[key], key=preference) for key in keys}
    samples = [_published_sample(key, chosen[key], benchmark) for key in keys]
    first = chosen[keys[0]]
    tables = dict.fromkeys(record.table for cell in records.values() for record in cell)
    return Row(
        kind="published",
        method=method,
        samples=samples,
        paper=first.paper,
        table=first.table,
        paper_title=first.title,
        also=tuple(table for table in tables if table != first.table),
        url=first.url or "",
        year=first.year,
    )


def _published_sample(key: str, record: Published, benchmark: Benchmark) -> Sample:
    if record.value is None:
        status = record.status or "lost"
        return Sample(key, None, doubt=benchmark.doubt(record), status=status)
    return Sample(key, float(record.value), record.std, benchmark.doubt(record))


# ---------------------------------------------------------------- the frame


def build_values(tables: Sequence[tuple[Benchmark, Sequence[Row]]]) -> pd.DataFrame:
    """Build the frame of all tables: a line for each value, seeds averaged, ranked and ordered.

    Its columns: of the table ``benchmark`` and ``title``; of the row the fields of :class:`Row`
    with ``row``, its number, ``method`` as text, and ``source``; of the column ``column``,
    ``label``, ``metric``, ``digits`` and ``place``; of the value ``value``, ``std``, ``count``,
    ``doubt``, ``status``, ``text``, ``is_ranked`` and ``rank`` (from 1, in its column; missing
    where nothing is ranked).
    """
    samples: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    columns: list[dict[str, Any]] = []
    for number, (benchmark, table_rows) in enumerate(tables):
        columns += _column_lines(benchmark)
        for row in table_rows:
            place = len(rows)
            rows.append(_row_line(row, place, benchmark) | {"table_number": number})
            samples += [{"row": place, **vars(sample)} for sample in row.samples]
    cells = average_seeds(pd.DataFrame(samples, columns=["row", *Sample.__annotations__]))
    names = [*Row.__annotations__, "row", "benchmark", "title", "source", "table_number"]
    values = cells.merge(pd.DataFrame(rows, columns=names), on="row")
    names = ["benchmark", "column", "label", "metric", "digits", "higher", "place", "is_main"]
    values = values.merge(pd.DataFrame(columns, columns=names), on=["benchmark", "column"])
    values["is_ranked"] &= values["is_main"]
    values = values.astype({"rounds": "Int64", "year": "Int64"})
    return _ordered(_with_ranks(values))


def _column_lines(benchmark: Benchmark) -> list[dict[str, Any]]:
    return [
        {
            "benchmark": benchmark.id,
            "column": column.key,
            "label": column.header,
            "metric": column.metric,
            "digits": column.digits,
            "higher": column.higher,
            "place": place,
            "is_main": column in benchmark.columns,
        }
        for place, column in enumerate(benchmark.all_columns)
    ]


def _row_line(row: Row, number: int, benchmark: Benchmark) -> dict[str, Any]:
    about = {"row": number, "benchmark": benchmark.id, "title": benchmark.title}
    return {**vars(row), **about, "method": row.method.label, "source": row.source}


def average_seeds(samples: pd.DataFrame) -> pd.DataFrame:
    """Average the samples of a row in a column; the deviation is divided by n - 1.

    Where some runs of a row have no value, the mean of the others is in doubt.
    """
    samples = samples.astype({"value": float, "stated_std": float})
    groups = samples.groupby(["row", "column"], sort=False)
    cells = groups.agg(
        value=("value", "mean"),
        std=("value", "std"),
        stated_std=("stated_std", "first"),
        count=("value", "count"),
        size=("value", "size"),
        doubt=("doubt", "first"),
        status=("status", "first"),
    ).reset_index()
    cells["std"] = cells["stated_std"].fillna(cells["std"])
    cells.loc[cells["column"] == "parameters", "std"] = None
    partly = cells[(cells["count"] > 0) & (cells["count"] < cells["size"])]
    for line in partly.itertuples():
        words = line.status.replace("_", " ")
        cells.loc[line.Index, "doubt"] = f"{words} in {line.size - line.count} of {line.size} runs"
    cells.loc[cells["value"].notna(), "status"] = None
    return cells.drop(columns=["stated_std", "size"])


def _with_ranks(values: pd.DataFrame) -> pd.DataFrame:
    """Rank the values of each column: those that print alike share a rank (1, 2, 2, 4).

    A value in doubt has no rank, and nothing has a rank because of it.
    """
    pairs = zip(values["value"], values["digits"], strict=True)
    printed = pd.Series([round(value, digits) for value, digits in pairs], dtype=float)
    order = printed.where(~values["higher"].astype(bool), -printed)
    counted = order.where(values["is_ranked"] & values["doubt"].isna())
    ranks = counted.groupby([values["benchmark"], values["column"]]).rank(method="min")
    texts = [value_text(*line) for line in values[TEXT_FIELDS].itertuples(index=False)]
    return values.assign(order=order, rank=ranks.astype("Int64"), text=texts)


def _ordered(values: pd.DataFrame) -> pd.DataFrame:
    """Order the rows of each table by its first column and number them.

    Ranked before unranked before missing values; then the best, runs before published rows.
    """
    first = values[values["place"] == 0].set_index("row")
    keys = pd.DataFrame(
        {
            "missing": values["row"].map(first["value"]).isna(),
            "unranked": values["row"].map(first["rank"]).isna(),
            "best": values["row"].map(first["order"]).fillna(0.0),
            "published": values["kind"] == "published",
        }
    )
    keys = pd.concat([keys, values[["table_number", "method", "source", "row", "place"]]], axis=1)
    order = ["table_number", "missing", "unranked", "best", "published"]
    order += ["method", "source", "row", "place"]
    values = values.loc[keys.sort_values(order).index].reset_index(drop=True)
    return values.assign(row=pd.factorize(values["row"])[0])


def value_text(value: float, std: float, doubt: str | None, status: str | None, digits: int) -> str:
    """A value for the reader, ``50.03 ± 0.41``, or why there is none; ``?`` marks a doubt."""
    if pd.isna(value):
        return STATUS.get(status, "-")
    text = f"{value:,.{digits}f}"
    if pd.notna(std):
        text += f" ± {std:,.{digits}f}"
    return f"{text} {DOUBT}" if isinstance(doubt, str) else text
