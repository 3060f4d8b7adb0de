"""The board: runs placed in benchmarks beside the published numbers, or apart with the reasons."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from fedseg.cli import printable
from fedseg.files import digest
from fedseg.leaderboard.benchmarks import (
    DATASETS,
    FURTHER_COLUMNS,
    Benchmark,
    Column,
    Setting,
    benchmarks,
    settings,
)
from fedseg.leaderboard.comparable import clients_per_round, matches, model_name
from fedseg.leaderboard.rows import (
    Row,
    order_rows,
    present_columns,
    published_rows,
    rank_rows,
    run_row,
    value_of,
    with_options,
)
from fedseg.metric_names import Metric, main_metric
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import FILE_NAME, Results
from fedseg.runs.tables import experiment_key, group_seeds

RESULTS = attrgetter("results")
OWN_NOTE = (
    "runs with the same clients, test images, network, participation and rounds are ranked only "
    "against each other; no published results exist"
)


@dataclass(frozen=True)
class Table:
    """Rows that stand together: a benchmark's, ranked, or those of runs that are not comparable."""

    title: str  # for the reader
    columns: tuple[Column, ...]  # what is shown
    rows: tuple[Row, ...]  # the best of the first column first; what has no rank comes last
    benchmark: Benchmark | None  # for runs apart the closest one, None if there is none
    ranked: bool = True  # whether the rows are comparable; others have reasons, none is published
    synthetic: bool = False  # whether its images are rendered
    further_columns: tuple[Column, ...] = ()  # what some row has, and nothing is ranked by
    further_rows: tuple[Row, ...] = ()  # published ones that are not ranked

    @property
    def runs(self) -> tuple[Row, ...]:
        """The rows that are not published ones."""
        return tuple(row for row in self.rows if row.kind == "run")


@dataclass(frozen=True)
class Board:
    """Everything that a leaderboard shows."""

    rankings: tuple[Table, ...]  # of every benchmark; without a run, its published rows alone
    apart: tuple[Table, ...]  # of the other runs
    runs: Mapping[str, FoundRun]  # the runs in the tables, by id
    messages: tuple[str, ...]  # what was left out, and why; which results were changed

    def shown(self, everything: bool = False) -> list[Table]:
        """The rankings worth printing: those with a run, or all that have any row."""
        return [table for table in self.rankings if (table.rows if everything else table.runs)]


@dataclass(frozen=True)
class Place:
    """A run in a benchmark, or beside it."""

    run: FoundRun
    benchmark: Benchmark | None  # None: its data set has none
    reasons: tuple[str, ...] = ()  # why it is not comparable
    same_split: bool = True  # as the benchmark's

    @property
    def similarity(self) -> str:
        """The benchmark or data set that is closest to the run, in words."""
        if self.benchmark is None:
            return self.run.results.train.dataset
        data = DATASETS[self.benchmark.setting.dataset]
        return f"like {self.benchmark.title if self.same_split else data['title']}"


def build_board(runs: Sequence[FoundRun], messages: Iterable[str] = ()) -> Board:
    """Place runs of ``read_runs`` in benchmarks, group seeds, join published rows, rank."""
    messages = list(messages)
    places = {run.id: _readable_places(run, messages) for run in runs}
    sound = {run.id for run in runs if any(not place.reasons for place in places[run.id])}
    runs = _one_per_seed([run for run in runs if places[run.id]], sound, messages)
    placed: dict[Benchmark, list[FoundRun]] = {benchmark: [] for benchmark in benchmarks()}
    own: dict[str, list[FoundRun]] = {}  # by what they share
    placings = [place for run in runs for place in places[run.id]]
    apart = [place for place in placings if place.reasons]
    for place in placings:
        if not place.reasons and place.benchmark is None:
            own.setdefault(_own_key(place.run.results), []).append(place.run)
        elif not place.reasons:
            placed[place.benchmark].append(place.run)
    placed |= {_own_benchmark(together): together for together in own.values()}
    return Board(
        tuple(_ranking(benchmark, together) for benchmark, together in placed.items()),
        tuple(_apart_tables(apart)),
        {run.id: run for run in runs},
        tuple(map(printable, messages)),
    )


def _ranking(benchmark: Benchmark, runs: Sequence[FoundRun]) -> Table:
    columns, all_columns = benchmark.columns, (*benchmark.columns, *benchmark.further)
    rows = [run_row(group, all_columns, benchmark) for group in group_seeds(runs, RESULTS)]
    rows = with_options(rows, {run.id: run.results for run in runs})
    published, others = published_rows(benchmark)
    rows = rank_rows([*rows, *published], columns)
    further = present_columns(benchmark.further, (*rows, *others))
    columns = (columns[0], *present_columns(columns[1:], (*rows, *others)))
    more = {"further_columns": further, "further_rows": order_rows(others, columns[0])}
    return Table(benchmark.title, columns, rows, benchmark, **more)


def _readable_places(run: FoundRun, messages: list[str]) -> list[Place]:
    """The places of a run; none if its recorded options, which are free, make no row."""
    try:
        places = list(_places(run))
        for place in places:
            benchmark = place.benchmark
            columns = (*benchmark.columns, *benchmark.further) if benchmark else ()
            run_row([run], (*columns, *FURTHER_COLUMNS), benchmark)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        messages.append(f"{run.folder / FILE_NAME}: is damaged ({error!r}): left out")
        return []
    return places


def _places(run: FoundRun) -> Iterator[Place]:
    """The closest benchmark, then the further ones of its setting that a run has values for."""
    results = run.results
    candidates = [s for s in settings() if DATASETS[s.dataset]["class"] == results.train.dataset]
    if not candidates:
        lacking = f"there is no benchmark of {results.train.dataset}, and the run has no metrics"
        yield Place(run, None, () if results.last_rounds.mean else (lacking,))
        return
    match = min(matches(results, candidates), key=lambda m: (bool(m.reasons), m.distance))
    main, *further = (b for b in benchmarks() if b.setting is match.setting)
    reasons = match.reasons if match.same_split else match.reasons_of_no_split
    if not reasons and value_of(results, main.columns[0], main) is None:
        reasons = (f"the metric {main.columns[0].metric} is missing",)
    yield Place(run, main, reasons, match.same_split)
    for benchmark in () if reasons else further:
        column = benchmark.columns[0]
        of_target = benchmark.target is not None and column.metric in results.curves.figures
        if of_target or value_of(results, column, benchmark) is not None:
            yield Place(run, benchmark, match.reasons_against_table(benchmark))


def _one_per_seed(
    runs: Sequence[FoundRun], sound: Collection[str], messages: list[str]
) -> list[FoundRun]:
    """Of runs of one experiment and seed the unchanged, then the ``sound``, then the newest."""

    def preference(run: FoundRun) -> tuple[bool, bool, float]:
        return not run.results.edited, run.id in sound, run.changed

    keys = {run.id: (experiment_key(run.results), run.results.seed) for run in runs}
    chosen = {keys[run.id]: run for run in sorted(reversed(runs), key=preference)}
    for run in runs:
        preferred = chosen[keys[run.id]]
        if preferred is not run:
            messages.append(
                f"{run.folder}: is a second run of {run.results.name} with seed "
                f"{run.results.seed}; {preferred.folder} counts, an unchanged one before others, "
                "then a comparable one, then the newest; give each run its own --seed"
            )
    return [run for run in runs if chosen[keys[run.id]] is run]


def _apart_tables(places: Sequence[Place]) -> Iterator[Table]:
    """Tables of runs that are left out: those with the same data and rounds stand together."""
    order = {benchmark: number for number, benchmark in enumerate((*benchmarks(), None))}

    def key(place: Place) -> tuple:
        results = place.run.results
        data = (results.train.dataset, results.synthetic, results.train.partition_sha256)
        return order[place.benchmark], place.similarity, *data, results.rounds

    for _, together in groupby(sorted(places, key=key), key):
        yield _apart_table(list(together))


def _apart_table(places: Sequence[Place]) -> Table:
    first, benchmark = places[0].run.results, places[0].benchmark
    runs = [place.run for place in places]
    columns = (benchmark and _present_columns(benchmark, runs)) or _own_columns(runs)
    rows, shown = [], (*columns, *FURTHER_COLUMNS)
    for reasons in dict.fromkeys(place.reasons for place in places):
        some = [place.run for place in places if place.reasons == reasons]
        groups = group_seeds(some, RESULTS)
        rows += [replace(run_row(group, shown, benchmark), reasons=reasons) for group in groups]
    rows = with_options(rows, {run.id: run.results for run in runs})
    further = present_columns(FURTHER_COLUMNS, rows)
    rendered = "rendered images, " if first.synthetic else ""
    sizes = f"({first.train.clients} clients, {first.rounds} rounds)"
    about = {"ranked": False, "synthetic": first.synthetic, "further_columns": further}
    rows = order_rows(rows, columns[0]) if columns else rows
    closest = benchmark if places[0].same_split else None
    return Table(f"{rendered}{places[0].similarity} {sizes}", columns, rows, closest, **about)


def _present_columns(benchmark: Benchmark, runs: Sequence[FoundRun]) -> tuple[Column, ...]:
    """Those columns of a setting's main and further tables that the runs have."""
    tables = [b for b in benchmarks() if b.setting is benchmark.setting and b.target is None]
    if benchmark is not tables[0]:
        return benchmark.columns
    return tuple(
        column
        for table in tables
        for column in table.columns
        if any(value_of(run.results, column, table) is not None for run in runs)
    )


def _own_key(results: Results) -> str:
    """A digest of what the rows of such a board share."""
    tests = {
        name: (test.dataset, test.samples, test.split_checksum, test.content_sha256, test.steps)
        for name, test in sorted(results.tests.items())
    }
    train, window, took = results.train, results.last_rounds, clients_per_round(results)
    return digest(
        [
            *(train.dataset, train.samples, train.partition_sha256, results.synthetic, tests),
            *(model_name(results), results.model.parameters, results.rounds, window.rounds),
            *(took.min, took.max),
        ]
    )


def _own_benchmark(runs: Sequence[FoundRun]) -> Benchmark:
    """The board of runs that agree in :func:`_own_key`."""
    first = runs[0].results
    train, most = first.train, clients_per_round(first).max
    rendered = "rendered images, " if first.synthetic else ""
    title = f"{rendered}{train.dataset}, {model_name(first)}, {most} of {train.clients} clients"
    setting = Setting(
        id=f"own-{_own_key(first)[:8]}",
        title=f"{title}, {first.rounds:,} rounds",
        dataset=train.dataset,
        split={},
        model=model_name(first),
        n_clients=train.clients,
        clients_per_round=most,
        rounds=first.rounds,
        local_epochs=first.local_epochs,
        domains=tuple(first.tests),
        window=first.last_rounds.rounds,
        parameters=first.model.parameters,
    )
    further = {"further": FURTHER_COLUMNS, "note": OWN_NOTE}
    about = setting.id, setting.title, "Own data", setting
    return Benchmark(*about, _own_columns(runs), **further)


def _own_columns(runs: Sequence[FoundRun]) -> tuple[Column, ...]:
    """Columns of such data: its domains' mIoU, or accuracy, or the first metric."""
    names = dict.fromkeys(name for run in runs for name in run.results.last_rounds.mean)
    main = main_metric(names)
    domains = {str(m): m.domain for m in map(Metric.parse, names) if m.metric == main}
    taken = {column.key for column in FURTHER_COLUMNS}  # a domain may have the name of one
    return tuple(
        Column(name if domain in taken else domain, domain, name, "window", (domain, main))
        for name, domain in domains.items()
    )
