"""The board: runs placed in benchmarks beside the published numbers, or apart with the reasons."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fedseg.cli import printable
from fedseg.leaderboard.benchmarks import (
    DATASETS,
    FURTHER_COLUMNS,
    Benchmark,
    Column,
    benchmarks,
    settings,
)
from fedseg.leaderboard.collect import FoundRun
from fedseg.leaderboard.comparable import matches
from fedseg.leaderboard.own_data import own_benchmark, own_columns, own_key
from fedseg.leaderboard.rows import (
    Row,
    filled,
    ordered,
    present,
    published_rows,
    ranked,
    run_row,
    value_of,
    with_options,
)
from fedseg.runs.schema import FILE_NAME, Results
from fedseg.runs.tables import experiment_key, group_seeds

RESULTS = attrgetter("results")


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


# a run that is left out of a benchmark, with the reasons; None if its data set has none
_Left = tuple[FoundRun, Benchmark | None, tuple[str, ...]]


def build_board(runs: Sequence[FoundRun], messages: Iterable[str] = ()) -> Board:
    """Place runs in benchmarks, group seeds, join published rows, rank.

    Runs and messages are as :func:`fedseg.leaderboard.collect.read_runs` returns them.
    """
    messages = list(messages)
    places = {run.id: _readable_places(run, messages) for run in runs}
    sound = {run.id for run in runs if not all(reasons for _, reasons in places[run.id])}
    runs = _one_per_seed([run for run in runs if places[run.id]], sound, messages)
    placed: dict[Benchmark, list[FoundRun]] = {benchmark: [] for benchmark in benchmarks()}
    own: dict[str, list[FoundRun]] = {}  # by what they share
    left = []
    for run in runs:
        for benchmark, reasons in places[run.id]:
            if reasons:
                left.append((run, benchmark, reasons))
            elif benchmark is None:
                own.setdefault(own_key(run.results), []).append(run)
            else:
                placed[benchmark].append(run)
    placed |= {own_benchmark(found): found for found in own.values()}
    rankings = []
    for benchmark, found in placed.items():
        columns, all_columns = benchmark.columns, (*benchmark.columns, *benchmark.further)
        rows = [run_row(group, all_columns, benchmark) for group in group_seeds(found, RESULTS)]
        rows = with_options(rows, {run.id: run.results for run in found})
        published, others = published_rows(benchmark)
        rows = ranked([*rows, *published], columns)
        further = present(benchmark.further, (*rows, *others))
        columns = (columns[0], *present(columns[1:], (*rows, *others)))
        shown = (*columns, *further)
        rankings.append(
            Table(
                benchmark.title,
                columns,
                filled(rows, shown),
                benchmark,
                further_columns=further,
                further_rows=ordered(filled(others, shown), columns[0]),
            )
        )
    by_id = {run.id: run for run in runs}
    return Board(tuple(rankings), tuple(_apart(left)), by_id, tuple(map(printable, messages)))


def _readable_places(
    run: FoundRun, messages: list[str]
) -> list[tuple[Benchmark | None, tuple[str, ...]]]:
    """See :func:`_places`; none for a run whose recorded options, which are free, make no row."""
    try:
        found = list(_places(run.results))
        for benchmark, _ in found:
            columns = (*benchmark.columns, *benchmark.further) if benchmark else ()
            run_row([run], (*columns, *FURTHER_COLUMNS), benchmark)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        messages.append(f"{run.folder / FILE_NAME}: is damaged ({error!r}): left out")
        return []
    return found


def _one_per_seed(
    runs: Sequence[FoundRun], sound: Collection[str], messages: list[str]
) -> list[FoundRun]:
    """Of several runs of one experiment with one seed, one.

    Unchanged ones come first, then ``sound`` ones, which are comparable, then the newest.
    """

    def preference(run: FoundRun) -> tuple[bool, bool, float]:
        return not run.results.edited, run.id in sound, run.changed

    keys = {run.id: (experiment_key(run.results), run.results.seed) for run in runs}
    chosen = {keys[run.id]: run for run in sorted(reversed(runs), key=preference)}
    for run in runs:
        kept = chosen[keys[run.id]]
        if kept is not run:
            messages.append(
                f"{run.folder}: is a second run of {run.results.name} with seed "
                f"{run.results.seed}, {kept.folder} {_why(kept, run, sound)} and counts; give each "
                "run its own --seed"
            )
    return [run for run in runs if chosen[keys[run.id]] is run]


def _why(kept: FoundRun, other: FoundRun, sound: Collection[str]) -> str:
    if other.results.edited and not kept.results.edited:
        return "is as it was written"
    if kept.id in sound and other.id not in sound:
        return "is comparable"
    return "is newer" if kept.changed > other.changed else "is as old"


def _places(results: Results) -> Iterator[tuple[Benchmark | None, tuple[str, ...]]]:
    """The benchmarks that a run belongs to, the closest first, with what keeps it out of each."""
    candidates = [s for s in settings() if DATASETS[s.dataset]["class"] == results.train.dataset]
    if not candidates:
        lacking = f"there is no benchmark of {results.train.dataset}, and the run has no metrics"
        yield None, () if results.last_rounds.mean else (lacking,)
        return
    match = min(matches(results, candidates), key=lambda m: (bool(m.reasons), m.distance))
    main, *further = (b for b in benchmarks() if b.setting is match.setting)
    reasons = match.reasons
    if not match.same_split:
        reasons = match.reasons_of_no_split
    elif not reasons and value_of(results, main.columns[0], main) is None:
        reasons = (f"the metric {main.columns[0].metric} is missing",)
    yield main, reasons
    for benchmark in () if reasons else further:
        column = benchmark.columns[0]
        of_target = benchmark.target is not None and column.metric in results.curves.figures
        if of_target or value_of(results, column, benchmark) is not None:
            yield benchmark, match.reasons_against_table(benchmark)


# ---------------------------------------------------------------- apart


def _apart(left: Sequence[_Left]) -> Iterator[Table]:
    """Tables of runs that are left out: those with the same data and rounds stand together."""
    order = {benchmark: place for place, benchmark in enumerate((*benchmarks(), None))}
    tables: dict[tuple, list[_Left]] = {}
    for one in left:
        results = one[0].results
        key = (
            order[one[1]],
            _resembled(results, one[1])[1],
            results.train.dataset,
            results.synthetic,
            results.train.partition_sha256,
            results.rounds,
        )
        tables.setdefault(key, []).append(one)
    for key in sorted(tables):
        yield _apart_table(tables[key])


def _resembled(results: Results, benchmark: Benchmark | None) -> tuple[Benchmark | None, str]:
    """The benchmark, unless it has another split, and what the run resembles in words."""
    if benchmark is None:
        return None, results.train.dataset
    if matches(results, [benchmark.setting])[0].same_split:
        return benchmark, f"like {benchmark.title}"
    return None, f"like {DATASETS[benchmark.setting.dataset]['title']}"


def _apart_table(left: Sequence[_Left]) -> Table:
    runs, reasons = [run for run, _, _ in left], {run.id: why for run, _, why in left}
    first, benchmark = runs[0].results, left[0][1]
    closest, title = _resembled(first, benchmark)
    columns = (benchmark and _present_columns(benchmark, runs)) or own_columns(runs)
    rows = []
    for group in group_seeds(runs, RESULTS):
        for why in dict.fromkeys(reasons[run.id] for run in group):
            some = [run for run in group if reasons[run.id] == why]
            row = run_row(some, (*columns, *FURTHER_COLUMNS), benchmark)
            rows.append(replace(row, reasons=why))
    rows = with_options(rows, {run.id: run.results for run in runs})
    further = present(FURTHER_COLUMNS, rows)
    rows = filled(rows, (*columns, *further))
    title = f"rendered images, {title}" if first.synthetic else title
    return Table(
        title=f"{title} ({first.train.clients} clients, {first.rounds} rounds)",
        columns=columns,
        rows=ordered(rows, columns[0]) if columns else rows,
        benchmark=closest,
        ranked=False,
        synthetic=first.synthetic,
        further_columns=further,
    )


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
