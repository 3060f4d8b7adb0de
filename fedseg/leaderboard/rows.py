"""Rows of a table: runs grouped by seed, published numbers, and their ranks."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from fedseg.checks import is_number, shown
from fedseg.config.roles import METHOD, PROTOCOL, select
from fedseg.leaderboard.benchmarks import Benchmark, Column, records_of
from fedseg.leaderboard.methods import Method, method_of_record, method_of_results
from fedseg.leaderboard.reference import Published, read_json
from fedseg.metric_names import flatten
from fedseg.runs.curvature_files import measured_value
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import Results
from fedseg.runs.tables import Cell, differing, mean_cell, ranks


class Rank(NamedTuple):
    """The place of a run's row in the table of a benchmark."""

    benchmark: str  # its id
    title: str
    rank: int | None  # None: in doubt


@dataclass(frozen=True)
class Row:
    """A method's values: of runs that differ in their seed only, or of a paper."""

    method: Method  # in the vocabulary of the published records
    cells: dict[str, Cell]  # by the column's key
    name: str = ""  # the runs' experiment
    paper: str = ""  # source of a published row, as are table and title
    table: str = ""
    title: str = ""
    also: tuple[str, ...] = ()  # further tables of the paper that hold some of its cells
    seeds: tuple[int, ...] = ()  # of the runs
    runs: tuple[str, ...] = ()  # ids of the runs, in the order of the seeds
    bytes: float | None = None  # traffic of a run, both ways, mean over the runs
    seconds: float | None = None  # wall time of a run, mean over the runs
    rounds: int | None = None  # of a run
    # in a table of all runs:
    reasons: tuple[str, ...] = ()  # why it is not comparable
    ranks: tuple[Rank, ...] = ()  # in benchmarks
    closest: str = ""  # id of the benchmark that the reasons are about
    command: str = ""  # of a reproduced row, as is reproduced
    year: int | None = None  # of the paper, or in which the last run was finished, if all say it
    url: str = ""  # of the paper

    reproduced: bool = False  # of a run that the suite ships

    @property
    def kind(self) -> str:
        """``published``, ``reproduced`` (by the suite's own runs) or ``run``."""
        return "published" if self.paper else "reproduced" if self.reproduced else "run"

    @property
    def source(self) -> str:
        """Paper and table, or the experiment's name."""
        return f"{self.paper} {self.table}" if self.paper else self.name


def run_row(
    group: Sequence[FoundRun], columns: Sequence[Column], benchmark: Benchmark | None
) -> Row:
    """The row of one experiment's runs."""
    results = [run.results for run in group]
    epochs = benchmark.setting.local_epochs if benchmark else results[0].local_epochs
    traffic = [r.communication.bytes_down + r.communication.bytes_up for r in results]
    seconds = [r.seconds["wall"] for r in results if "wall" in r.seconds]
    years = [r.year for r in results if r.year is not None]
    return Row(
        method=method_of_results(results[0], epochs),
        cells={c.key: _run_cell([value_of(r, c, benchmark) for r in results], c) for c in columns},
        name=results[0].name,
        seeds=tuple(r.seed for r in results),
        runs=tuple(run.id for run in group),
        bytes=statistics.fmean(traffic),
        seconds=statistics.fmean(seconds) if seconds else None,
        rounds=results[0].rounds,
        year=max(years) if len(years) == len(results) else None,
    )


def with_options(rows: Sequence[Row], results: Mapping[str, Results]) -> list[Row]:
    """Rows of runs; where method and name are one, the method names the options that differ."""
    options = [select(results[row.runs[0]].config, METHOD, PROTOCOL) for row in rows]
    alike: dict[tuple[Method, str], list[Mapping]] = {}
    for row, values in zip(rows, options, strict=True):
        alike.setdefault((row.method, row.name), []).append(values)
    keys, named = {key: differing(group) for key, group in alike.items()}, []
    for row, own in zip(rows, options, strict=True):
        words = [f"{key} {shown(own[key])}" for key in keys[row.method, row.name] if key in own]
        extra = ", ".join(filter(None, [row.method.extra, *words])) or None
        named.append(replace(row, method=replace(row.method, extra=extra)))
    return named


def _run_cell(values: Sequence[float | None], column: Column) -> Cell:
    known = [value for value in values if value is not None]
    missing = "not_reached" if column.statistic.endswith("_to_target") else "missing"
    if not known:
        return Cell(status=missing)
    cell, lacking = mean_cell(known), len(values) - len(known)
    doubt = f"{missing.replace('_', ' ')} in {lacking} of {len(values)} runs" if lacking else None
    return replace(cell, std=None if column.statistic == "parameters" else cell.std, doubt=doubt)


def value_of(results: Results, column: Column, benchmark: Benchmark | None) -> float | None:
    """A run's value in a column, or None."""
    if column.statistic == "published":
        return None
    if column.statistic == "parameters":
        return results.model.parameters / 1e6
    if column.statistic == "seconds":
        wall = results.seconds.get("wall")
        return wall and wall / results.completed_rounds
    if column.statistic == "epsilon":
        value = (results.extras.get("privacy") or {}).get("epsilon")
        return value if is_number(value) else None
    if column.statistic == "curvature":
        return measured_value(results, column.metric)
    if column.statistic == "window":
        return results.last_rounds.mean.get(column.metric)
    if column.statistic == "final":
        value = flatten(results.final).get(column.metric)
        return float(value) if is_number(value) else None
    reached = results.curves.reach(column.metric, benchmark.target)
    if reached is None or column.statistic == "rounds_to_target":
        return reached and float(reached[0])
    return reached[1] / fedavg_bytes(results.model.parameters, benchmark)


def fedavg_bytes(parameters: int, benchmark: Benchmark) -> int:
    """Traffic of FedAvg's whole run: every parameter, 4 bytes, both ways."""
    setting = benchmark.setting
    return 8 * parameters * setting.clients_per_round * setting.rounds


@cache
def published_rows(benchmark: Benchmark) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """A row for each method of each paper, in the order of the tables: ranked ones, and others.

    The others are centralized training, variants that a paper tries besides its method, methods
    with further metrics alone, and rows that are lost in the text that was read. Where tables of
    one paper share a cell, the one without a doubt counts, then the one with a deviation, then the
    first.
    """
    rows: dict[tuple[str, Method], dict[str, list[Published]]] = {}
    keys_of_ranked = set()
    for record in records_of(benchmark.setting):
        column, is_ranked = benchmark.column_of(record)
        if column is not None:
            key = record.paper, method_of_record(record, benchmark.setting.local_epochs)
            rows.setdefault(key, {}).setdefault(column.key, []).append(record)
            keys_of_ranked |= {key} if is_ranked else set()
    ranked_rows, others = [], []
    for key, records in rows.items():
        row = _published_row(key[1], records, benchmark)
        known = [row.cells[c.key] for c in benchmark.columns if c.key in records]
        lost = all(cell.status == "lost" for cell in known)
        (others if lost or key not in keys_of_ranked else ranked_rows).append(row)
    return tuple(ranked_rows), tuple(others)


def _published_row(
    method: Method, records: Mapping[str, Sequence[Published]], benchmark: Benchmark
) -> Row:
    def preference(record: Published) -> tuple[bool, ...]:
        return record.value is None, benchmark.doubt(record) is not None, record.std is None

    columns = (*benchmark.columns, *benchmark.further)
    chosen = {c.key: min(records[c.key], key=preference) for c in columns if c.key in records}
    cells = dict.fromkeys((column.key for column in columns), Cell())
    for key, record in chosen.items():
        value, status = record.value, None if record.value is not None else record.status or "lost"
        value = None if value is None else float(value)
        cells[key] = Cell(value, record.std, doubt=benchmark.doubt(record), status=status)
    first = next(iter(chosen.values()))
    tables = dict.fromkeys(record.table for cell in records.values() for record in cell)
    also = tuple(table for table in tables if table != first.table)
    about = {name: getattr(first, name) for name in ("paper", "table", "title", "year")}
    return Row(method, cells, also=also, url=first.url or "", **about)


def reproduced_rows(benchmark: Benchmark, runs: Iterable[FoundRun]) -> list[Row]:
    """Rows of the runs behind docs/results.md, but for those that are among ``runs``."""
    known = {run.results.experiment_sha256 for run in runs}
    rows = []
    for facts in read_json("reproduced.json")["rows"]:
        if facts["benchmark"] == benchmark.id and facts["experiment_sha256"] not in known:
            cells = {c.key: Cell() for c in (*benchmark.columns, *benchmark.further)}
            cells |= {key: Cell(value, count=1) for key, value in facts["cells"].items()}
            names = ("name", "bytes", "seconds", "rounds", "year", "command")
            about = {name: facts[name] for name in names}
            method, seeds = Method(**facts["method"]), tuple(facts["seeds"])
            rows.append(Row(method, cells, seeds=seeds, reproduced=True, **about))
    return rows


def present_columns(columns: Iterable[Column], rows: Iterable[Row]) -> tuple[Column, ...]:
    """Those of some columns that any of the rows has a value in."""
    has = {key for row in rows for key, cell in row.cells.items() if cell.value is not None}
    return tuple(column for column in columns if column.key in has)


def rank_rows(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Rows with ranks in every column, ordered by the first.

    Values that print alike share a rank. A value in doubt has no rank, and nothing has a rank
    because of it.
    """
    for column in columns:
        values = [_order_in(column, row.cells[column.key]) for row in rows]
        rows = [
            replace(row, cells=row.cells | {column.key: replace(row.cells[column.key], rank=rank)})
            for row, rank in zip(rows, ranks(values), strict=True)
        ]
    return order_rows(rows, columns[0])


def order_rows(rows: Iterable[Row], column: Column) -> tuple[Row, ...]:
    """Ranked before unranked before missing; then by value, runs before published rows."""

    def key(row: Row) -> tuple:
        cell = row.cells[column.key]
        value = _order_in(column, replace(cell, doubt=None)) or 0.0
        missing = (cell.value is None, cell.rank is None)
        return (*missing, value, row.kind == "published", row.method.label, row.source)

    return tuple(sorted(rows, key=key))


def _order_in(column: Column, cell: Cell) -> float | None:
    """The value as it prints, the least the best; None where there is none or it is in doubt."""
    if cell.value is None or cell.doubt is not None:
        return None
    value = round(cell.value, column.digits)
    return -value if column.higher else value
