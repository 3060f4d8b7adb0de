"""The board: runs placed in benchmarks beside the published numbers, or apart with the reasons."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

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
    Rank,
    Row,
    order_rows,
    present_columns,
    published_rows,
    rank_rows,
    reproduced_rows,
    run_row,
    value_of,
    with_options,
)
from fedseg.metric_names import MAIN_METRICS, Metric, flatten, main_metric
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import FILE_NAME, Results
from fedseg.runs.tables import experiment_key, group_seeds

RESULTS = attrgetter("results")
WORST = tuple(f"{metric}_worst10" for metric in MAIN_METRICS)
OWN = "Your runs"  # the group of tables that have nothing but runs
OWN_NOTE = (
    "runs with the same clients, test images, network, participation and rounds are ranked only "
    "against each other; no published results exist"
)


@dataclass(frozen=True)
class Table:
    """Rows that stand together: a benchmark's, ranked, or all runs with one data set."""

    title: str  # for the reader
    columns: tuple[Column, ...]  # what is shown
    rows: tuple[Row, ...]  # the best of the first column first; what has no rank comes last
    benchmark: Benchmark | None = None  # None: of runs, of which some may not be comparable
    synthetic: bool = False  # whether its images are rendered
    further_columns: tuple[Column, ...] = ()  # what some row has, and nothing is ranked by
    further_rows: tuple[Row, ...] = ()  # published ones that are not ranked

    @property
    def ranked(self) -> bool:
        """True for a benchmark's."""
        return self.benchmark is not None

    @property
    def is_own(self) -> bool:
        """True if no published number can stand in it."""
        return self.benchmark is None or self.benchmark.group == OWN

    @property
    def runs(self) -> tuple[Row, ...]:
        """The rows of the board's own runs."""
        return tuple(row for row in self.rows if row.kind == "run")


@dataclass(frozen=True)
class Board:
    """Everything that a leaderboard shows."""

    # of the runs' own data, then of every benchmark; without a run, its published rows alone
    rankings: tuple[Table, ...]
    own: tuple[Table, ...]  # of all runs by data set, each with its rank or why it has none
    runs: Mapping[str, FoundRun]  # the runs in the tables, by id
    messages: tuple[str, ...]  # what was left out, and why; which results were changed

    def shown(self, everything: bool = False) -> list[Table]:
        """The rankings worth printing: those with a run, or all that have any row."""
        return [table for table in self.rankings if (table.rows if everything else table.runs)]

    @property
    def overviews(self) -> list[Table]:
        """The tables of all runs by data set, but for those that one ranking repeats."""
        ranked = {row.runs for table in self.rankings if table.is_own for row in table.runs}
        return [t for t in self.own if any(row.runs not in ranked for row in t.rows)]

    @property
    def apart(self) -> list[Table]:
        """The runs that are not comparable in a benchmark, by data set."""
        rows = [tuple(row for row in table.rows if row.reasons) for table in self.own]
        return [replace(t, rows=some) for t, some in zip(self.own, rows, strict=True) if some]


class Place(NamedTuple):
    """A benchmark for a run, and the reasons why it is not comparable there."""

    benchmark: Benchmark | None  # None: there is none of its data set
    reasons: tuple[str, ...] = ()


def build_board(runs: Sequence[FoundRun], messages: Iterable[str] = ()) -> Board:
    """Place runs of ``read_runs`` in benchmarks, group seeds, join published rows, rank."""
    messages = list(messages)
    places = {run.id: _readable_places(run, messages) for run in runs}
    sound = {run.id for run in runs if any(not place.reasons for place in places[run.id])}
    runs = _one_per_seed([run for run in runs if places[run.id]], sound, messages)
    placed: dict[Benchmark, list[FoundRun]] = {benchmark: [] for benchmark in benchmarks()}
    foreign: dict[str, list[FoundRun]] = {}  # without a benchmark, by what they share
    for run in runs:
        for benchmark, reasons in places[run.id]:
            if not reasons and benchmark is None:
                foreign.setdefault(_own_key(run.results), []).append(run)
            elif not reasons:
                placed[benchmark].append(run)
    titles = _own_titles([together[0].results for together in foreign.values()])
    own_data = zip(titles, foreign.values(), strict=True)
    own_placed = {_own_benchmark(title, together): together for title, together in own_data}
    rankings = tuple(_ranking(*place) for place in (*own_placed.items(), *placed.items()))
    own = tuple(_own_tables(runs, places, rankings))
    by_id = {run.id: run for run in runs}
    return Board(rankings, own, by_id, tuple(messages))


def _ranking(benchmark: Benchmark, runs: Sequence[FoundRun]) -> Table:
    if spread := _spread_columns(runs):
        benchmark = replace(benchmark, further=(*benchmark.further, *spread))
    columns, all_columns = benchmark.columns, (*benchmark.columns, *benchmark.further)
    rows = [run_row(group, all_columns, benchmark) for group in group_seeds(runs, RESULTS)]
    rows = with_options(rows, {run.id: run.results for run in runs})
    published, others = published_rows(benchmark)
    rows = rank_rows([*rows, *reproduced_rows(benchmark, runs), *published], columns)
    further = present_columns(benchmark.further, (*rows, *others))
    columns = (columns[0], *present_columns(columns[1:], (*rows, *others)))
    more = {"further_columns": further, "further_rows": order_rows(others, columns[0])}
    return Table(benchmark.title, columns, rows, benchmark, **more)


def _readable_places(run: FoundRun, messages: list[str]) -> list[Place]:
    """The places of a run; none if its recorded options, which are free, make no row."""
    try:
        places = list(_places(run))
        for benchmark in {None, *(place.benchmark for place in places)}:
            columns = (*benchmark.columns, *benchmark.further) if benchmark else FURTHER_COLUMNS
            run_row([run], columns, benchmark)
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
        yield Place(None, () if results.last_rounds.mean else (lacking,))
        return
    match = min(matches(results, candidates), key=lambda m: (bool(m.reasons), m.distance))
    main, *further = (b for b in benchmarks() if b.setting is match.setting)
    reasons = match.reasons if match.same_split else match.reasons_of_no_split
    if not reasons and value_of(results, main.columns[0], main) is None:
        reasons = (f"the metric {main.columns[0].metric} is missing",)
    yield Place(main if match.same_split else None, reasons)
    for benchmark in () if reasons else further:
        column = benchmark.columns[0]
        of_target = benchmark.target is not None and column.metric in results.curves.figures
        if of_target or value_of(results, column, benchmark) is not None:
            reasons = match.reasons_against_table(benchmark)
            yield Place(benchmark, tuple(f"{benchmark.title}: {reason}" for reason in reasons))


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


def _own_tables(
    runs: Sequence[FoundRun], places: Mapping[str, Sequence[Place]], rankings: Iterable[Table]
) -> Iterator[Table]:
    """All runs of each data set, rendered images apart; seeds that fare alike share a row."""
    ranks: dict[str, list[Rank]] = {run.id: [] for run in runs}
    for table in rankings:
        for row in table.runs:
            place = table.benchmark.id, table.title, row.cells[table.columns[0].key].rank
            for run_id in row.runs:
                ranks[run_id].append(Rank(*place))
    tables: dict[tuple[bool, str], dict[tuple[str, ...], list[FoundRun]]] = {}
    for run in runs:
        reasons = tuple(reason for place in places[run.id] for reason in place.reasons)
        table = tables.setdefault((run.results.synthetic, run.results.train.dataset), {})
        table.setdefault(reasons, []).append(run)
    titles = {facts["class"]: facts["title"] for facts in DATASETS.values()}
    for (synthetic, dataset), alike in sorted(tables.items(), key=lambda item: item[0]):
        columns = _own_columns([run for some in alike.values() for run in some])
        further = (*FURTHER_COLUMNS, *_spread_columns(runs))
        rows, shown = [], (*columns, *further)
        for reasons, some in alike.items():
            for group in group_seeds(some, RESULTS):
                first = group[0].id
                closest = next((b.id for b, why in places[first] if why and b), "")
                about = {"reasons": reasons, "ranks": tuple(ranks[first]), "closest": closest}
                rows.append(replace(run_row(group, shown, None), **about))
        rows = with_options(rows, {run.id: run.results for run in runs})
        further = present_columns(further, rows)
        rows = order_rows(rows, columns[0]) if columns else tuple(rows)
        title = f"{titles.get(dataset, dataset)}{', rendered images' * synthetic}"
        yield Table(title, columns, rows, synthetic=synthetic, further_columns=further)


def _spread_columns(runs: Iterable[FoundRun]) -> tuple[Column, ...]:
    """The results of the worst tenth of clients or domains, where runs have evaluated them."""
    names = dict.fromkeys(name for run in runs for name in flatten(run.results.final))
    return tuple(
        Column(name, f"{metric.domain}, worst 10 %", name, "final", (None, name))
        for name, metric in zip(names, map(Metric.parse, names), strict=True)
        if metric.metric in WORST
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
            *(train.dataset, train.samples, train.content_sha256, train.partition_sha256),
            *(results.synthetic, tests, model_name(results), results.model.parameters),
            *(results.rounds, window.rounds, took.min, took.max),
        ]
    )


def _own_titles(firsts: Sequence[Results]) -> list[str]:
    """Name each table of own data after the config of its first run.

    Tables of one config also say their numbers of clients and rounds.
    """
    names = [_config_name(results) for results in firsts]
    titles = []
    for name, results in zip(names, firsts, strict=True):
        words = [name]
        if names.count(name) > 1:
            participants = clients_per_round(results).max
            words.append(
                f"{participants} of {results.train.clients} clients, {results.rounds:,} rounds"
            )
        if results.synthetic:
            words.append("rendered images")
        titles.append(", ".join(words))
    return titles


def _config_name(results: Results) -> str:
    """The name of an experiment without those of its methods, which stand at its end."""
    name = results.name
    for method in reversed(results.methods or []):
        name = name.removesuffix(f"_{method}")
    return name.removesuffix("_fedavg") or results.name


def _own_benchmark(title: str, runs: Sequence[FoundRun]) -> Benchmark:
    """The board of runs that agree in :func:`_own_key`."""
    first = runs[0].results
    setting = Setting(
        id=f"own-{_own_key(first)[:8]}",
        title=title,
        dataset=first.train.dataset,
        split={},
        model=model_name(first),
        n_clients=first.train.clients,
        clients_per_round=clients_per_round(first).max,
        rounds=first.rounds,
        local_epochs=first.local_epochs,
        domains=tuple(first.tests),
        window=first.last_rounds.rounds,
        parameters=first.model.parameters,
    )
    return Benchmark(
        id=setting.id,
        title=title,
        group=OWN,
        setting=setting,
        columns=_own_columns(runs),
        further=FURTHER_COLUMNS,
        note=OWN_NOTE,
    )


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
