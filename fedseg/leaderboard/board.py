"""The board: each run beside the published numbers of its setting, and among your other runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from fedseg.leaderboard.benchmarks import (
    FURTHER_COLUMNS,
    Benchmark,
    Column,
    benchmarks,
)
from fedseg.leaderboard.comparable import compare, find_reasons_against_table
from fedseg.leaderboard.values import (
    Row,
    build_values,
    published_rows,
    reproduced_rows,
    run_row,
    run_rows,
    value_of,
)
from fedseg.metric_names import MAIN_METRICS, Metric, flatten, main_metric
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import FILE_NAME, Results
from fedseg.runs.tables import experiment_key

WORST = tuple(f"{metric}_worst10" for metric in MAIN_METRICS)
OWN = "Your runs"  # the group of tables that have nothing but runs


@dataclass(frozen=True)
class Board:
    """Everything that a leaderboard shows."""

    own: tuple[Benchmark, ...]  # of all runs by data set and setting
    benchmarks: tuple[Benchmark, ...]  # with published rows
    values: pd.DataFrame  # of all tables, as of :func:`fedseg.leaderboard.values.build_values`
    runs: Mapping[str, FoundRun]  # the runs in the tables, by id
    messages: tuple[str, ...]  # what was left out, and why; which results were changed

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return dict(iter(self.values.groupby("benchmark", sort=False)))

    def lines(self, benchmark: Benchmark) -> pd.DataFrame:
        """The lines of a table, the best row first; empty if it has no row."""
        return self._tables.get(benchmark.id, self.values.iloc[:0])

    @cached_property
    def _records(self) -> dict[str, list[dict[str, Any]]]:
        records: dict[str, list[dict[str, Any]]] = {}
        for record in self.values.to_dict("records"):
            records.setdefault(record["benchmark"], []).append(record)
        return records

    def records(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        """The same lines as dicts, for what goes through them one by one."""
        return self._records.get(benchmark.id, [])

    def has_runs(self, benchmark: Benchmark) -> bool:
        """True if a run of yours stands in a table."""
        return any(line["kind"] == "run" for line in self.records(benchmark))

    def shown(self, everything: bool = False) -> list[Benchmark]:
        """The benchmarks worth printing: those with a run, or all that have a ranked row."""
        if not everything:
            return [benchmark for benchmark in self.benchmarks if self.has_runs(benchmark)]
        tables = []
        for benchmark in self.benchmarks:
            if any(line["is_ranked"] for line in self.records(benchmark)):
                tables.append(benchmark)
        return tables

    @property
    def apart(self) -> list[Benchmark]:
        """The tables of your runs of which some row has no published numbers beside it."""
        return [t for t in self.own if any(line["reasons"] for line in self.records(t))]

    @cached_property
    def places(self) -> dict[str, list[dict[str, Any]]]:
        """The benchmarks of each run, by its id: the record of their first columns."""
        places: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in self.runs}
        for benchmark in self.benchmarks:
            for line in self.records(benchmark):
                for id_ in line["runs"] if line["place"] == 0 else ():
                    places[id_].append(line)
        return places


@dataclass(frozen=True)
class Place:
    """Where a run stands besides the table of your runs."""

    run: FoundRun
    tables: Sequence[Benchmark] = ()  # in which it is comparable
    reasons: tuple[str, ...] = ()  # why not in its setting's, or in a further one of these


@dataclass
class _OwnTable:
    """The runs of one data set and setting."""

    title: str
    places: list[Place] = field(default_factory=list)


def build_board(runs: Sequence[FoundRun], messages: Iterable[str] = ()) -> Board:
    """Place runs of ``read_runs`` in tables, average seeds, join published rows, rank."""
    messages = list(messages)
    places = [_find_place(run, messages) for run in _one_per_seed(runs, messages)]
    places = [place for place in places if place is not None]
    your_runs = list(_own_tables(places))
    tables = list(your_runs)
    for benchmark in benchmarks():
        placed = [place.run for place in places if benchmark in place.tables]
        table = replace(benchmark, further=(*benchmark.further, *_spread_columns(placed)))
        rows = [
            *run_rows(table, placed),
            *reproduced_rows(table, placed),
            *published_rows(benchmark),
        ]
        tables.append((table, rows))
    return Board(
        own=tuple(benchmark for benchmark, _ in your_runs),
        benchmarks=tuple(benchmark for benchmark, _ in tables[len(your_runs) :]),
        values=build_values(tables),
        runs={place.run.id: place.run for place in places},
        messages=tuple(messages),
    )


def _one_per_seed(runs: Sequence[FoundRun], messages: list[str]) -> list[FoundRun]:
    """The runs that are the only one of their experiment and seed; the others are refused."""
    groups: dict[tuple, list[FoundRun]] = {}
    for run in runs:
        groups.setdefault((experiment_key(run.results), run.results.seed), []).append(run)
    for group in groups.values():
        if len(group) > 1:
            folders = " and ".join(str(run.folder) for run in group)
            results = group[0].results
            messages.append(
                f"{folders}: are runs of {results.name} with one seed, {results.seed}: none of "
                "them counts; give each run its own --seed, or remove the others"
            )
    alone = {group[0].id for group in groups.values() if len(group) == 1}
    return [run for run in runs if run.id in alone]


def _find_place(run: FoundRun, messages: list[str]) -> Place | None:
    """Compare a run with its setting; None if its options, which are free, make no row."""
    try:
        place = _place(run)
        for benchmark in (_own_benchmark("own", "", [run]), *place.tables):
            run_row(benchmark, [run])
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        messages.append(f"{run.folder / FILE_NAME}: is damaged ({error!r}): left out")
        return None
    return place


def _place(run: FoundRun) -> Place:
    """The tables of a run's setting that it has values for and is comparable in."""
    results = run.results
    comparison = compare(results)
    if comparison.reasons:
        return Place(run, reasons=comparison.reasons)
    main, *further = (b for b in benchmarks() if b.setting is comparison.setting)
    if value_of(results, main.columns[0], main) is None:
        return Place(run, reasons=(f"the metric {main.columns[0].metric} is missing",))
    tables, reasons = [main], []
    for benchmark in further:
        column = benchmark.columns[0]
        has_target = benchmark.target is not None and column.metric in results.curves.figures
        if not has_target and value_of(results, column, benchmark) is None:
            continue
        against = find_reasons_against_table(results, benchmark)
        if against:
            reasons += [f"{benchmark.title}: {reason}" for reason in against]
        else:
            tables.append(benchmark)
    return Place(run, tables, tuple(reasons))


# ---------------------------------------------------------------- your runs


def _own_tables(places: Sequence[Place]) -> Iterator[tuple[Benchmark, list[Row]]]:
    """A table of the runs of each data set and setting, with its rows."""
    tables: dict[tuple[str, str, bool], _OwnTable] = {}
    for place in places:
        results = place.run.results
        name = results.setting or config_name(results)
        key = (results.train.dataset, name, results.synthetic)
        title = f"{name}, rendered images" if results.synthetic else name
        tables.setdefault(key, _OwnTable(title)).places.append(place)
    titles = [table.title for table in tables.values()]
    for number, (key, table) in enumerate(tables.items(), start=1):
        dataset, _, _ = key
        title = table.title
        if titles.count(title) > 1:
            title = f"{title}, {dataset}"
        runs = [place.run for place in table.places]
        benchmark = _own_benchmark(f"own-{number}", title, runs)
        by_reasons: dict[tuple[str, ...], list[FoundRun]] = {}
        for place in table.places:
            by_reasons.setdefault(place.reasons, []).append(place.run)
        rows = []
        for reasons, alike in by_reasons.items():
            rows += run_rows(benchmark, alike, reasons)
        yield benchmark, rows


def config_name(results: Results) -> str:
    """The name of an experiment without those of its methods, which stand at its end."""
    name = results.name
    for method in reversed(results.methods or []):
        name = name.removesuffix(f"_{method}")
    return name.removesuffix("_fedavg") or results.name


def _own_benchmark(id_: str, title: str, runs: Sequence[FoundRun]) -> Benchmark:
    """The table of some runs: the mIoU of its domains, or accuracy, or the first metric."""
    names = dict.fromkeys(name for run in runs for name in run.results.last_rounds.mean)
    main = main_metric(names)
    taken = {column.key for column in FURTHER_COLUMNS}  # a domain may have the name of one
    columns = []
    for name, metric in zip(names, map(Metric.parse, names), strict=True):
        if metric.metric == main:
            domain = metric.domain
            key = name if domain in taken else domain
            columns.append(Column(key, domain, name, "window", (domain, main)))
    return Benchmark(
        id=id_,
        title=title,
        group=OWN,
        setting=None,
        columns=tuple(columns),
        further=(*FURTHER_COLUMNS, *_spread_columns(runs)),
    )


def _spread_columns(runs: Iterable[FoundRun]) -> tuple[Column, ...]:
    """The results of the worst tenth of clients or domains, where runs have evaluated them."""
    names = dict.fromkeys(name for run in runs for name in flatten(run.results.final))
    columns = []
    for name, metric in zip(names, map(Metric.parse, names), strict=True):
        if metric.metric in WORST:
            label = f"{metric.domain}, worst 10 %"
            columns.append(Column(name, label, name, "final", (None, name)))
    return tuple(columns)
