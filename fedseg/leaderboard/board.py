"""The board: runs grouped by seeds, beside the published numbers, ranked within a benchmark."""

import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedseg.errors import DataError
from fedseg.leaderboard.benchmarks import (
    DATASETS,
    TITLES,
    Benchmark,
    Column,
    benchmarks,
    distance,
    reasons_against,
    reasons_of_no_split,
    same_split,
    settings,
)
from fedseg.leaderboard.methods import Method, method_of_record, method_of_results
from fedseg.leaderboard.reference import Published, read_published
from fedseg.runs.schema import FILE_NAME, Results, experiment_key, read_results

ASIDE = "previous"  # where a new run moves an earlier one of its folder
MAIN_METRICS = ("mIoU", "accuracy")


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        id: its number among the runs of a board, such as ``run3``.
        folder: its work dir. changed: when its results were written, in seconds.
        results: what it reached.
    """

    id: str
    folder: Path
    changed: float
    results: Results


@dataclass(frozen=True)
class Cell:
    """A figure of a row.

    Attributes:
        value: mean over the seeds, or as published; None if there is none.
        std: over the seeds, divided by n - 1, or as published; None for one seed.
        count: seeds that the mean is over; 0 for a published figure.
        rank: in its column, from 1; equal figures share a rank; None for what is not ranked.
        doubt: why it is not ranked although it has a value; None otherwise.
        status: why it has no value, such as ``not_reached``, if that is known.
    """

    value: float | None = None
    std: float | None = None
    count: int = 0
    rank: int | None = None
    doubt: str | None = None
    status: str | None = None


@dataclass(frozen=True)
class Row:
    """A method's figures: runs that differ in their seed only, or a published row.

    Attributes:
        method: in the words of the published records.
        name: the runs' experiment; empty for a published row.
        paper, table, title: the source of a published row; empty for runs.
        also: tables of the same paper that hold some of its cells too.
        cells: column key -> figure.
        seeds, runs: seeds of the runs and their ids, in the same order.
        bytes: traffic of a run, both ways, mean over the runs. seconds: wall time, likewise.
        reasons: why it is not comparable; empty in a benchmark's table.
    """

    method: Method
    cells: Mapping[str, Cell]
    name: str = ""
    paper: str = ""
    table: str = ""
    title: str = ""
    also: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    bytes: float | None = None
    seconds: float | None = None
    reasons: tuple[str, ...] = ()

    @property
    def published(self) -> bool:
        """Whether the row is from a paper."""
        return bool(self.paper)

    @property
    def source(self) -> str:
        """Paper and table, or the experiment's name."""
        return f"{self.paper} {self.table}" if self.paper else self.name


@dataclass(frozen=True)
class Ranking:
    """A benchmark's rows, the best of its first column first; what has no rank comes last."""

    benchmark: Benchmark
    rows: tuple[Row, ...]

    @property
    def runs(self) -> tuple[Row, ...]:
        """The rows that are not published ones."""
        return tuple(row for row in self.rows if not row.published)


@dataclass(frozen=True)
class Apart:
    """Runs that are comparable with no published number, and why: each row has its reasons.

    Attributes:
        title: what the runs share, in words. closest: id of the benchmark that they come closest
            to; None if there is none of their data set.
        synthetic: whether its images are rendered.
        columns: the figures. rows: the best of the first column first, without ranks.
    """

    title: str
    closest: str | None
    synthetic: bool
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Board:
    """Everything that a leaderboard shows.

    Attributes:
        rankings: a table for every benchmark, with published rows only where no run is comparable.
        apart: tables of the other runs, never beside published numbers.
        runs: the runs in the tables, by id.
        messages: what was left out, and why.
    """

    rankings: tuple[Ranking, ...]
    apart: tuple[Apart, ...]
    runs: Mapping[str, Run]
    messages: tuple[str, ...]


# ---------------------------------------------------------------- reading


def read_runs(paths: Iterable[str | Path]) -> tuple[list[Run], list[str]]:
    """Read every ``results.json`` below some folders.

    Args:
        paths: folders, searched at any depth, or the files themselves. Runs that a later one of
            their folder has moved aside (``previous/``) are not read.

    Returns:
        Runs in the order of their paths, and messages about what cannot be read.
    """
    runs, messages = [], []
    for path in paths:
        if not Path(path).exists():
            messages.append(f"{path}: does not exist")
    files = {file.resolve(): file for path in paths for file in _find(Path(path), messages)}
    for file in files.values():
        try:
            results = read_results(file)
        except DataError as error:
            messages.append(str(error))
            continue
        runs.append(Run(f"run{len(runs) + 1}", file.parent, file.stat().st_mtime, results))
    if files and not runs:
        messages.append("no run could be read")
    elif not files:
        messages.append(f"no {FILE_NAME} was found: name folders of finished runs")
    return runs, list(dict.fromkeys(messages))


def _find(path: Path, messages: list[str]) -> Iterator[Path]:
    """The results below a path, in order; a message for a run that has none."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ASIDE)
        if FILE_NAME in names:
            yield Path(folder) / FILE_NAME
        elif "history.jsonl" in names:
            messages.append(
                f"{folder}: the run is not finished, it has no {FILE_NAME}; tools/train.py CONFIG "
                "--work-dir DIR --resume goes on with it"
            )


# ---------------------------------------------------------------- building


def build_board(runs: Sequence[Run], messages: Iterable[str] = ()) -> Board:
    """Place runs in benchmarks, group seeds, join published rows, rank.

    Args:
        runs: as :func:`read_runs` gives them. messages: likewise; the board's come after them.
    """
    messages = list(messages)
    runs = _one_a_seed(runs, messages)
    inside: dict[str, list[Run]] = {}
    apart = []
    for run in runs:
        for benchmark, reasons in _places(run.results):
            if reasons:
                apart.append(_Left(run, benchmark, reasons))
            else:
                inside.setdefault(benchmark.id, []).append(run)
    rankings = []
    for benchmark in benchmarks():
        rows = [
            _row(g, benchmark.columns, benchmark) for g in _groups(inside.get(benchmark.id, []))
        ]
        rows += _published_rows(benchmark)
        rankings.append(Ranking(benchmark, _ranked(rows, benchmark.columns)))
    by_id = {run.id: run for run in runs}
    return Board(tuple(rankings), tuple(_apart(apart)), by_id, tuple(messages))


def _one_a_seed(runs: Sequence[Run], messages: list[str]) -> list[Run]:
    """Of several runs of one experiment with one seed, the newest."""
    newest: dict[tuple, Run] = {}
    for run in runs:
        key = (experiment_key(run.results), run.results.seed)
        kept = newest.setdefault(key, run)
        if kept is run:
            continue
        if run.changed > kept.changed:
            newest[key], kept, run = run, run, kept
        messages.append(
            f"{run.folder}: is a second run of {run.results.name} with seed {run.results.seed}: "
            f"left out, {kept.folder} is newer; give each run a seed of its own (--seed)"
        )
    chosen = {run.id for run in newest.values()}
    return [run for run in runs if run.id in chosen]


def _places(results: Results) -> Iterator[tuple[Benchmark | None, tuple[str, ...]]]:
    """The benchmarks that a run belongs to, with what keeps it out of each.

    A run that does not fit its closest setting has one place, the setting's main table.
    """
    candidates = [s for s in settings() if DATASETS[s.dataset][0] == results.train.dataset]
    if not candidates:
        yield None, (f"there is no benchmark of the data set {results.train.dataset}",)
        return
    setting = min(
        candidates, key=lambda s: (bool(reasons_against(results, s)), distance(results, s))
    )
    main, *further = (b for b in benchmarks() if b.setting is setting)
    reasons = reasons_against(results, setting)
    if not same_split(results, setting):
        reasons = reasons_of_no_split(results, setting)
    elif not reasons and _value(results, main.columns[0], main) is None:
        reasons = (f"the figure {main.columns[0].figure} is missing",)
    yield main, reasons
    for benchmark in further:
        if not reasons and _has_figures(results, benchmark):
            yield benchmark, benchmark.reasons_against(results)


def _has_figures(results: Results, benchmark: Benchmark) -> bool:
    """Whether a run has what a further table shows."""
    column = benchmark.columns[0]
    if benchmark.target is not None:
        return results.curves is not None and column.figure in results.curves.figures
    return _value(results, column, benchmark) is not None


def _groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs of one experiment together, by seed."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(experiment_key(run.results), []).append(run)
    return [sorted(group, key=lambda run: run.results.seed) for group in groups.values()]


def _row(group: Sequence[Run], columns: Sequence[Column], benchmark: Benchmark | None) -> Row:
    """The row of one experiment's runs."""
    first = group[0].results
    epochs = benchmark.setting.local_epochs if benchmark else first.local_epochs
    traffic = [r.results.communication.bytes_down + r.results.communication.bytes_up for r in group]
    seconds = [r.results.seconds["wall"] for r in group if "wall" in r.results.seconds]
    return Row(
        method=method_of_results(first, epochs),
        cells={
            column.key: _cell([_value(run.results, column, benchmark) for run in group], column)
            for column in columns
        },
        name=first.name,
        seeds=tuple(run.results.seed for run in group),
        runs=tuple(run.id for run in group),
        bytes=statistics.fmean(traffic),
        seconds=statistics.fmean(seconds) if seconds else None,
    )


def _cell(values: Sequence[float | None], column: Column) -> Cell:
    """Mean and deviation over seeds."""
    found = [value for value in values if value is not None]
    to_target = column.statistic.endswith("_to_target")
    missing = "not_reached" if to_target else "missing"
    if not found:
        return Cell(status=missing)
    doubt = None
    if len(found) < len(values):
        doubt = f"{missing.replace('_', ' ')} in {len(values) - len(found)} of {len(values)} runs"
    std = statistics.stdev(found) if len(found) > 1 else None
    return Cell(statistics.fmean(found), std, len(found), doubt=doubt)


def _value(results: Results, column: Column, benchmark: Benchmark | None) -> float | None:
    """A run's figure in a column."""
    domain, _, metric = column.figure.rpartition("/")
    if column.statistic == "window":
        return results.last_rounds.mean.get(column.figure)
    if column.statistic == "final":
        value = results.final.get(domain, {}).get(metric)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number else None
    reached = reach(results, column.figure, benchmark.target)
    if reached is None:
        return None
    round_, sent = reached
    if column.statistic == "rounds_to_target":
        return float(round_)
    setting = benchmark.setting  # FedAvg sends every parameter, 4 bytes, both ways
    of_fedavg = 8 * results.model.parameters * setting.clients_per_round * setting.rounds
    return sent / of_fedavg


def reach(results: Results, figure: str, target: float) -> tuple[int, int] | None:
    """(round, bytes sent until then) of the first evaluation that reaches a target, or None.

    Args:
        results: of a run. figure: ``<domain>/<metric>``. target: in the figure's unit.
    """
    curves = results.curves
    if curves is None:
        return None
    values = curves.figures.get(figure, ())
    for round_, sent, value in zip(curves.rounds, curves.bytes, values, strict=False):
        if value is not None and value >= target:
            return round_, sent
    return None


# ---------------------------------------------------------------- published rows


def _published_rows(benchmark: Benchmark) -> list[Row]:
    """A row for each method of each paper, in the order of the tables.

    Where tables of one paper share a cell, the one without a doubt counts, then the one with a
    deviation, then the first.
    """
    rows: dict[tuple[str, Method], dict[str, list[Published]]] = {}
    for record in read_published():
        column = benchmark.matches(record)
        if column is not None:
            method = method_of_record(record, benchmark.setting.local_epochs)
            cells = rows.setdefault((record.paper, method), {})
            cells.setdefault(column.key, []).append(record)
    return [_published_row(method, cells, benchmark) for (_, method), cells in rows.items()]


def _published_row(
    method: Method, cells: Mapping[str, Sequence[Published]], benchmark: Benchmark
) -> Row:
    chosen = {}
    for key, records in cells.items():
        chosen[key] = min(
            records,
            key=lambda r: (r.value is None, benchmark.doubt(r) is not None, r.std is None),
        )
    first = next(iter(chosen.values()))
    tables = dict.fromkeys(r.table for records in cells.values() for r in records)
    return Row(
        method=method,
        cells={key: _published_cell(record, benchmark) for key, record in chosen.items()},
        paper=first.paper,
        table=first.table,
        title=first.title,
        also=tuple(table for table in tables if table != first.table),
    )


def _published_cell(record: Published, benchmark: Benchmark) -> Cell:
    doubt = benchmark.doubt(record)
    if record.value is None:
        return Cell(status=record.status or "lost", doubt=doubt)
    return Cell(float(record.value), record.std, doubt=doubt)


# ---------------------------------------------------------------- order and ranks


def _ranked(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Rows with ranks in every column, ordered by the first.

    Figures that print alike share a rank, and the ranks after them are skipped (1, 2, 2, 4). A
    figure in doubt has no rank, and nothing has a rank because of it.
    """
    ranks: dict[tuple[int, str], int] = {}
    for column in columns:
        known = {
            number: round(row.cells[column.key].value, column.digits)
            for number, row in enumerate(rows)
            if column.key in row.cells
            and row.cells[column.key].value is not None
            and row.cells[column.key].doubt is None
        }
        for number, value in known.items():
            better = [v for v in known.values() if (v > value if column.higher else v < value)]
            ranks[number, column.key] = len(better) + 1
    ranked = []
    for number, row in enumerate(rows):
        cells = {
            column.key: replace(
                row.cells.get(column.key, Cell()), rank=ranks.get((number, column.key))
            )
            for column in columns
        }
        ranked.append(replace(row, cells=cells))
    return tuple(sorted(ranked, key=lambda row: _order(row, columns[0])))


def _order(row: Row, column: Column) -> tuple:
    """Ranked before unranked before missing; then by value, runs before published rows."""
    cell = row.cells[column.key]
    value = 0.0 if cell.value is None else round(cell.value, column.digits)
    return (
        cell.value is None,
        cell.rank is None,
        -value if column.higher else value,
        row.published,
        row.method.label,
        row.source,
    )


# ---------------------------------------------------------------- apart


@dataclass(frozen=True)
class _Left:
    """A run that is left out of a table, and why.

    Without a table there is no benchmark of its data set.
    """

    run: Run
    benchmark: Benchmark | None
    reasons: tuple[str, ...]

    @property
    def closest(self) -> Benchmark | None:
        """The benchmark, unless the run's split is that of none."""
        found = self.benchmark
        return found if found and same_split(self.run.results, found.setting) else None

    @property
    def title(self) -> str:
        """What it is like."""
        if self.closest is not None:
            return f"like {self.closest.title}"
        if self.benchmark is not None:
            return f"like {TITLES[self.benchmark.setting.dataset]}"
        return self.run.results.train.dataset


def _apart(left: Sequence[_Left]) -> Iterator[Apart]:
    """Tables of runs that are left out: those with the same data and rounds stand together."""
    tables: dict[tuple, list[_Left]] = {}
    for one in left:
        results = one.run.results
        key = (
            one.benchmark.id if one.benchmark else "",
            one.title,
            results.train.dataset,
            results.synthetic,
            results.train.partition_sha256 or "",
            results.rounds,
        )
        tables.setdefault(key, []).append(one)
    order = {benchmark.id: number for number, benchmark in enumerate(benchmarks())}
    for key in sorted(tables, key=lambda k: (order.get(k[0], len(order)), k)):
        yield _apart_table(tables[key])


def _apart_table(left: Sequence[_Left]) -> Apart:
    benchmark, closest, first = left[0].benchmark, left[0].closest, left[0].run.results
    runs = [one.run for one in left]
    reasons = {one.run.id: one.reasons for one in left}
    columns = _present(benchmark, runs) if benchmark else _own_columns(runs)
    rows = []
    for group in _groups(runs):
        by_reasons: dict[tuple[str, ...], list[Run]] = {}
        for run in group:
            by_reasons.setdefault(reasons[run.id], []).append(run)
        for why, some in by_reasons.items():
            rows.append(replace(_row(some, columns, benchmark), reasons=why))
    title = f"rendered images, {left[0].title}" if first.synthetic else left[0].title
    return Apart(
        title=f"{title} ({first.train.clients} clients, {first.rounds} rounds)",
        closest=closest.id if closest else None,
        synthetic=first.synthetic,
        columns=columns,
        rows=tuple(sorted(rows, key=lambda row: _order(row, columns[0])) if columns else rows),
    )


def _present(benchmark: Benchmark, runs: Sequence[Run]) -> tuple[Column, ...]:
    """A main table's columns, and those of further tables, that the runs have; or their own."""
    tables = [b for b in benchmarks() if b.setting is benchmark.setting and b.target is None]
    if benchmark is not tables[0]:
        return benchmark.columns
    return tuple(
        column
        for table in tables
        for column in table.columns
        if any(_value(run.results, column, table) is not None for run in runs)
    ) or _own_columns(runs)


def _own_columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    """Columns of a data set without a benchmark: its domains' mIoU, or accuracy, or the first."""
    names = dict.fromkeys(name for run in runs for name in run.results.last_rounds.mean)
    kinds = list(dict.fromkeys(name.rpartition("/")[2] for name in names))
    metric = next((m for m in MAIN_METRICS if m in kinds), kinds[0] if kinds else None)
    return tuple(
        Column(domain, domain, name, "window", domain, kind)
        for name in names
        for domain, _, kind in [name.rpartition("/")]
        if kind == metric
    )
