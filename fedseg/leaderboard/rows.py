"""Rows of a table: runs grouped by seed, published numbers, and their ranks."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

from fedseg.checks import is_number, shown
from fedseg.leaderboard.benchmarks import Benchmark, Column
from fedseg.leaderboard.collect import FoundRun
from fedseg.leaderboard.methods import Method, method_of_record, method_of_results
from fedseg.leaderboard.reference import Published, read_published
from fedseg.metric_names import Metric
from fedseg.report.compare import differing, flat
from fedseg.runs.curvature_files import measured_value
from fedseg.runs.schema import Results, experiment_key

OPTIONS = ("algorithm", "local_loss", "optim_wrapper", "averaging", "batchnorm", "amp")


@dataclass(frozen=True)
class Cell:
    """A value of a row."""

    value: float | None = None  # mean over the seeds, or as published
    std: float | None = None  # over the seeds, divided by n - 1, or as published
    count: int = 0  # number of seeds in the mean; 0 for a published value
    rank: int | None = None  # in its column, from 1; equal values share a rank
    doubt: str | None = None  # why it is not ranked although it has a value
    status: str | None = None  # why it has no value, such as "not_reached", if that is known


@dataclass(frozen=True)
class Row:
    """A method's values: of runs that differ in their seed only, or of a paper."""

    method: Method  # in the vocabulary of the published records
    cells: Mapping[str, Cell]  # by the column's key
    name: str = ""  # the runs' experiment
    paper: str = ""  # source of a published row, as are table and title
    table: str = ""
    title: str = ""
    also: tuple[str, ...] = ()  # further tables of the paper that hold some of its cells
    seeds: tuple[int, ...] = ()  # of the runs
    runs: tuple[str, ...] = ()  # ids of the runs, in the order of the seeds
    bytes: float | None = None  # traffic of a run, both ways, mean over the runs
    seconds: float | None = None  # wall time of a run, mean over the runs
    reasons: tuple[str, ...] = ()  # why it is not comparable; empty in a benchmark's table
    year: int | None = None  # of the paper, or in which the newest run was finished
    url: str = ""  # of the paper

    @property
    def kind(self) -> str:
        """``published`` or ``run``."""
        return "published" if self.paper else "run"

    @property
    def source(self) -> str:
        """Paper and table, or the experiment's name."""
        return f"{self.paper} {self.table}" if self.paper else self.name


# ---------------------------------------------------------------- runs


def grouped(runs: Iterable[FoundRun]) -> list[list[FoundRun]]:
    """Runs of one experiment together, by seed."""
    groups: dict[tuple, list[FoundRun]] = {}
    for run in runs:
        groups.setdefault(experiment_key(run.results), []).append(run)
    return [sorted(group, key=lambda run: run.results.seed) for group in groups.values()]


def run_row(
    group: Sequence[FoundRun], columns: Sequence[Column], benchmark: Benchmark | None
) -> Row:
    """The row of one experiment's runs."""
    found = [run.results for run in group]
    epochs = benchmark.setting.local_epochs if benchmark else found[0].local_epochs
    traffic = [r.communication.bytes_down + r.communication.bytes_up for r in found]
    seconds = [r.seconds["wall"] for r in found if "wall" in r.seconds]
    return Row(
        method=method_of_results(found[0], epochs),
        cells={c.key: _cell([value_of(r, c, benchmark) for r in found], c) for c in columns},
        name=found[0].name,
        seeds=tuple(r.seed for r in found),
        runs=tuple(run.id for run in group),
        bytes=statistics.fmean(traffic),
        seconds=statistics.fmean(seconds) if seconds else None,
        year=date.fromtimestamp(max(run.changed for run in group)).year,
    )


def told_apart(rows: Sequence[Row], results: Mapping[str, Results]) -> list[Row]:
    """Rows of runs; where method and name are one, the method says in which options they differ.

    ``results``: by the id of a run.
    """
    alike: dict[tuple[Method, str], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault((row.method, row.name), []).append(place)
    made = list(rows)
    for (method, _), places in alike.items():
        runs = [results[rows[place].runs[0]] for place in places]
        options = [flat({key: getattr(run, key) for key in OPTIONS}) for run in runs]
        keys = differing(options)
        for place, own in zip(places, options, strict=True):
            words = [f"{key} {shown(own[key])}" for key in keys if key in own]
            extra = ", ".join(filter(None, [method.extra, *words])) or None
            made[place] = replace(rows[place], method=replace(method, extra=extra))
    return made


def _cell(values: Sequence[float | None], column: Column) -> Cell:
    """Mean and deviation over seeds."""
    found = [value for value in values if value is not None]
    missing = "not_reached" if column.statistic.endswith("_to_target") else "missing"
    if not found:
        return Cell(status=missing)
    doubt = None
    if len(found) < len(values):
        doubt = f"{missing.replace('_', ' ')} in {len(values) - len(found)} of {len(values)} runs"
    several = len(found) > 1 and column.statistic != "parameters"
    std = statistics.stdev(found) if several else None
    return Cell(statistics.fmean(found), std, len(found), doubt=doubt)


def value_of(results: Results, column: Column, benchmark: Benchmark | None) -> float | None:
    """A run's value in a column, or None."""
    if column.statistic == "published":
        return None
    if column.statistic == "parameters":
        return results.model.parameters / 1e6
    if column.statistic == "seconds":
        wall = results.seconds.get("wall")
        return wall and wall / results.completed_rounds
    if column.statistic == "curvature":
        return measured_value(results, column.metric)
    if column.statistic == "window":
        return results.last_rounds.mean.get(column.metric)
    if column.statistic == "final":
        metric = Metric.parse(column.metric)
        value = results.final.get(metric.domain, {}).get(metric.metric)
        return float(value) if is_number(value) else None
    reached = results.curves.reach(column.metric, benchmark.target)
    if reached is None or column.statistic == "rounds_to_target":
        return reached and float(reached[0])
    return reached[1] / fedavg_bytes(results, benchmark)


def fedavg_bytes(results: Results, benchmark: Benchmark) -> int:
    """Traffic of FedAvg's whole run: every parameter, 4 bytes, both ways."""
    setting = benchmark.setting
    return 8 * results.model.parameters * setting.clients_per_round * setting.rounds


# ---------------------------------------------------------------- published numbers


@cache
def published_rows(benchmark: Benchmark) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """A row for each method of each paper, in the order of the tables: ranked ones, and others.

    The others are centralized training, variants that a paper tries besides its method, methods
    with further metrics alone, and rows that are lost in the text that was read. Where tables of
    one paper share a cell, the one without a doubt counts, then the one with a deviation, then the
    first.
    """
    rows: dict[tuple[str, Method], dict[str, list[Published]]] = {}
    of_ranked = set()
    for record in read_published():
        key = record.paper, method_of_record(record, benchmark.setting.local_epochs)
        column = benchmark.matches(record)
        if column is not None:
            of_ranked.add(key)
        else:
            column = benchmark.matches_further(record)
        if column is not None:
            rows.setdefault(key, {}).setdefault(column.key, []).append(record)
    made = {key: _published_row(key[1], cells, benchmark) for key, cells in rows.items()}
    ranked_keys = {column.key for column in benchmark.columns}
    for key in list(of_ranked):
        if all(c.status == "lost" for k, c in made[key].cells.items() if k in ranked_keys):
            of_ranked.remove(key)
    others = tuple(row for key, row in made.items() if key not in of_ranked)
    return tuple(row for key, row in made.items() if key in of_ranked), others


def _published_row(
    method: Method, cells: Mapping[str, Sequence[Published]], benchmark: Benchmark
) -> Row:
    def preference(record: Published) -> tuple[bool, ...]:
        return record.value is None, benchmark.doubt(record) is not None, record.std is None

    columns = (*benchmark.columns, *benchmark.further)
    chosen = {c.key: min(cells[c.key], key=preference) for c in columns if c.key in cells}
    first = next(iter(chosen.values()))
    tables = dict.fromkeys(r.table for records in cells.values() for r in records)
    return Row(
        method=method,
        cells={key: _published_cell(record, benchmark) for key, record in chosen.items()},
        paper=first.paper,
        table=first.table,
        title=first.title,
        also=tuple(table for table in tables if table != first.table),
        year=first.year,
        url=first.url or "",
    )


def _published_cell(record: Published, benchmark: Benchmark) -> Cell:
    if record.value is None:
        return Cell(status=record.status or "lost", doubt=benchmark.doubt(record))
    return Cell(float(record.value), record.std, doubt=benchmark.doubt(record))


# ---------------------------------------------------------------- order and ranks


def present(columns: Iterable[Column], rows: Iterable[Row]) -> tuple[Column, ...]:
    """Those of some columns that any of the rows has a value in."""
    cells = [row.cells for row in rows]
    has = {key for found in cells for key, cell in found.items() if cell.value is not None}
    return tuple(column for column in columns if column.key in has)


def filled(rows: Iterable[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Rows with a cell in each of some columns, and in no other."""
    return tuple(
        replace(row, cells={column.key: row.cells.get(column.key, Cell()) for column in columns})
        for row in rows
    )


def ranked(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Rows with ranks in every column, ordered by the first.

    Values that print alike share a rank, and the ranks after them are skipped (1, 2, 2, 4). A value
    in doubt has no rank, and nothing has a rank because of it.
    """
    cells = [{**{column.key: Cell() for column in columns}, **row.cells} for row in rows]
    for column in columns:
        column_cells = [found[column.key] for found in cells]
        sound = [cell for cell in column_cells if cell.value is not None and cell.doubt is None]
        order = sorted(_sorted_by(cell, column) for cell in sound)
        for found in cells:
            if (cell := found[column.key]) in sound:
                rank = order.index(_sorted_by(cell, column)) + 1
                found[column.key] = replace(cell, rank=rank)
    return ordered(
        [replace(row, cells=found) for row, found in zip(rows, cells, strict=True)], columns[0]
    )


def ordered(rows: Iterable[Row], column: Column) -> tuple[Row, ...]:
    """Ranked before unranked before missing; then by value, runs before published rows."""

    def key(row: Row) -> tuple:
        cell = row.cells[column.key]
        value = 0.0 if cell.value is None else _sorted_by(cell, column)
        missing = (cell.value is None, cell.rank is None)
        return (*missing, value, row.kind == "published", row.method.label, row.source)

    return tuple(sorted(rows, key=key))


def _sorted_by(cell: Cell, column: Column) -> float:
    """The value as it prints; the least is the best."""
    value = round(cell.value, column.digits)
    return -value if column.higher else value
