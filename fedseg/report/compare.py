"""Runs side by side: metrics with their differences, what differs in configs, what each run cost.

A side of the comparison is one run, or several seeds of one experiment. The deviation of one run,
over the evaluations of its last rounds, says how much the metric still moves; only that of several
seeds says whether a difference would come out again.
"""

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedseg.checks import is_number
from fedseg.config.roles import ENVIRONMENT, METHOD, PROTOCOL, select
from fedseg.errors import DataError
from fedseg.metric_names import MAIN_METRICS, Metric, find_set, main_metric
from fedseg.names import short_names
from fedseg.runs.history import HISTORY
from fedseg.runs.run_files import RunFiles, is_run, read_run
from fedseg.runs.schema import FILE_NAME, DataEntry, Results
from fedseg.runs.tables import Cell, differing, experiment_key, mean_cell

MACHINE = ("versions", "device", "hardware", "threads")
NOT_CONDITIONS = ("steps", "style", "partition", "batch_size")  # of the data; the config has them
UNSET = (None, (), [])


@dataclass(frozen=True)
class Side:
    """A run, or seeds of one experiment."""

    label: str  # ``A``, ``B``, ...
    name: str  # of the experiment; of several sides of one, the folder
    path: Path  # as the user named it
    runs: tuple[RunFiles, ...]  # at least one, ordered by seed

    @property
    def first(self) -> RunFiles:
        """The run that stands for config and data, in which seeds do not differ."""
        return self.runs[0]

    @property
    def seeds(self) -> list[int]:
        """Those that are known."""
        return [run.seed for run in self.runs if run.seed is not None]

    def last(self, name: str) -> dict[int | None, float]:
        """A metric of the last evaluation, by seed."""
        return {run.seed: run.last[name] for run in self.runs if name in run.last}

    def means(self, name: str) -> dict[int | None, float]:
        """Its mean over the last rounds, by seed."""
        return {run.seed: run.window.mean[name] for run in self.runs if name in run.window.mean}


@dataclass(frozen=True)
class Figures:
    """A metric of a side. What there is not is None."""

    last: Cell | None  # of the last evaluation
    window: Cell | None  # over the evaluations of the last rounds
    difference: Cell | None = None  # of ``last`` to the reference's
    paired: Cell | None = None  # over rounds that both evaluated, or means of seeds of both
    # (round, bytes sent until then) of the first evaluation that was at least a target, over the
    # seeds that got there; a round without a value if none did
    reached: tuple[Cell, Cell | None] | None = None


@dataclass(frozen=True)
class Comparison:
    """Sides and how they differ; by name, a value for each side."""

    sides: tuple[Side, ...]  # the reference first
    config: Mapping[str, tuple[Any, ...]]  # differing keys, if all runs have a config
    conditions: Mapping[str, tuple[Any, ...]]  # differing versions, hardware and checksums
    metrics: Mapping[str, tuple[Figures, ...]]  # ``<domain>/<metric>``
    until: float | None  # the target of ``Figures.reached``
    shares: Sequence[float]  # of the rounds, in percent, at which ``at_share`` is of interest
    notes: tuple[str, ...]  # what keeps the sides from being compared, in words

    def costs(self, name: str) -> list[float | None]:
        """Of each side, a cost as its mean over runs, where it is known."""
        known = [[_costs(run).get(name) for run in side.runs] for side in self.sides]
        known = [list(filter(is_number, values)) for values in known]
        return [statistics.fmean(values) if values else None for values in known]

    def at_share(self, side: Side, name: str, share: float) -> Cell | None:
        """A metric's mean over the window that ends at a share of the rounds; over seeds."""
        means = []
        for run in side.runs:
            end = round(share / 100 * (run.planned or run.rounds))
            averages = run.curves.average(end, run.window.rounds)["last_rounds"]["mean"]
            means += [averages[name]] if name in averages and end <= run.rounds else []
        return mean_cell(means)


def read_sides(paths: Iterable[str | Path]) -> list[Side]:
    """Read work dirs, ``results.json`` files, or folders of one experiment's seeds."""
    paths = [Path(path) for path in paths]
    runs = [_read_runs(path) for path in paths]
    experiments = [first.name for first, *_ in runs]
    folders = short_names(map(str, paths))
    sides = []
    for number, path in enumerate(paths):
        label = chr(ord("A") + number) if number < 26 else f"R{number + 1}"
        name = experiments[number]
        if experiments.count(name) > 1:  # runs of a grid, which differ in options
            name = folders[str(path)]
        sides.append(Side(label=label, name=name, path=path, runs=runs[number]))
    return sides


def _read_runs(path: Path) -> tuple[RunFiles, ...]:
    inside = sorted(path.iterdir()) if path.is_dir() and not is_run(path) else ()
    runs = [read_run(folder) for folder in filter(is_run, inside)] or [read_run(path)]
    alone = "name the runs one by one"
    for run in runs:
        if run.results is None and len(runs) > 1:
            raise DataError(f"{run.folder}: the run is not finished: wait for it, or {alone}")
    if len({experiment_key(run.results) for run in runs if run.results is not None}) > 1:
        raise DataError(f"{path}: has runs of different experiments: {alone}")
    seeds = [run.seed for run in runs]
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise DataError(f"{path}: has seed {twice[0]} twice: {alone}")
    return tuple(sorted(runs, key=lambda run: run.seed or 0))


def compare(
    sides: Sequence[Side], until: float | None = None, shares: Sequence[float] = ()
) -> Comparison:
    """Compare sides with the first of them.

    ``until``: a value of the main metric, in percent; also find when each side first reached it.
    ``shares``: of the rounds, in percent, at which the main metric is of interest too.
    """
    results, configs = zip(
        *((side.first.results, side.first.config) for side in sides), strict=True
    )
    config = conditions = {}
    notes = ["Not every run has a readable config.json: configs are not compared."]
    if None not in configs:
        config = differing([select(one, METHOD, PROTOCOL, ENVIRONMENT) for one in configs])
        notes = [] if config or len(sides) == 1 else ["The configs do not differ."]
    if None not in results:
        conditions = differing([select(_conditions(one)) for one in results])
    foreign = [other_test_sets(sides[0], side) for side in sides]
    metrics = _metrics(sides, foreign, until)
    notes = (*notes, *_notes(sides, foreign))
    return Comparison(tuple(sides), config, conditions, metrics, until, shares, notes)


def _conditions(results: Results) -> dict[str, Any]:
    conditions = {name: getattr(results, name) for name in MACHINE}
    for name, entry in results.data.items():
        fields = entry.model_dump().items()
        known = {k: v for k, v in fields if k not in NOT_CONDITIONS and v not in UNSET}
        conditions[f"data.{name}"] = known
    return conditions


def _metrics(
    sides: Sequence[Side], foreign: Sequence[set[str]], until: float | None
) -> dict[str, tuple[Figures, ...]]:
    """Every metric, the main ones first; ``foreign``: each side's test sets with other images."""
    names = dict.fromkeys(name for side in sides for run in side.runs for name in run.last)
    metrics = {name: Metric.parse(name) for name in names}
    order = list(dict.fromkeys((*MAIN_METRICS, *(metric.metric for metric in metrics.values()))))
    main, table = main_metric(names), {}
    for name in sorted(names, key=lambda name: order.index(metrics[name].metric)):
        target = until if metrics[name].metric == main else None
        row = []
        for side, other_images in zip(sides, foreign, strict=True):
            comparable = find_set(metrics[name].domain, _test_names(side)) not in other_images
            reference = sides[0] if comparable and side is not sides[0] else None
            row.append(_figures(name, side, reference, target))
        table[name] = tuple(row)
    return table


def _test_names(side: Side) -> Collection[str]:
    return () if side.first.results is None else side.first.results.tests.keys()


def _figures(name: str, side: Side, reference: Side | None, target: float | None) -> Figures:
    difference = paired = None
    if reference is not None and len(reference.runs) == len(side.runs) == 1:
        difference = _difference(side.last(name), reference.last(name), "")
        paired = _paired_rounds(name, reference.first, side.first)
    elif reference is not None:
        difference = _difference(side.last(name), reference.last(name), "unpaired")
        paired = _difference(side.means(name), reference.means(name), "unpaired")
    last = _of_side(side, side.last(name).values())
    reached = None if target is None else _reached(name, side, target)
    return Figures(last, _window(name, side), difference, paired, reached)


def _of_side(side: Side, values: Collection[float]) -> Cell | None:
    """A run's own value, or the mean over the seeds."""
    return mean_cell(values, "" if len(side.runs) == 1 else "seeds")


def _window(name: str, side: Side) -> Cell | None:
    """The mean of a metric over the last rounds; of seeds, over their means."""
    run = side.first
    if len(side.runs) > 1 or name not in run.window.mean:
        return mean_cell(side.means(name).values())
    begin = run.rounds - run.window.rounds
    count = sum(round_ > begin for round_ in run.series(name)) or run.window.evaluations
    std = run.window.std.get(name) if count > 1 else None
    return Cell(run.window.mean[name], std, count, "evaluations")


def _difference(values: Mapping[Any, float], of: Mapping[Any, float], over: str) -> Cell | None:
    """Of values by seed: seed by seed where both sides have several of the same, else of means."""
    shared = [seed for seed in of if seed in values]
    if len(shared) > 1:
        return mean_cell([values[seed] - of[seed] for seed in shared])
    if not values or not of:
        return None
    return mean_cell([statistics.fmean(values.values()) - statistics.fmean(of.values())], over)


def _paired_rounds(name: str, reference: RunFiles, run: RunFiles) -> Cell | None:
    """Over the last of the rounds that both have evaluated; the initial model is of none."""
    of, values = reference.series(name), run.series(name)
    rounds = sorted(of.keys() & values.keys() - {0})
    begin = max(rounds, default=0) - min(reference.window.rounds, run.window.rounds)
    differences = [values[r] - of[r] for r in rounds if r > begin]
    return mean_cell(differences, "rounds", statistics.pstdev)


def _reached(name: str, side: Side, target: float) -> tuple[Cell, Cell | None] | None:
    if not all(run.series(name) for run in side.runs):
        return None
    firsts = [first for run in side.runs if (first := run.curves.reach(name, target))]
    rounds, sent = [round_ for round_, _ in firsts], [bytes_ for _, bytes_ in firsts]
    return _of_side(side, rounds) or Cell(status="not reached"), _of_side(side, sent)


def _costs(run: RunFiles) -> dict[str, Any]:
    sent, last = run.summary.communication, run.history[-1] if run.history else {}
    totals = {"rounds": run.rounds, "rejected_updates": run.summary.rejected_updates}
    totals |= {**sent.model_dump(), "bytes": sent.bytes_down + sent.bytes_up}
    return {**last, **run.summary.seconds, **totals}


def same_images(one: DataEntry, other: DataEntry) -> bool | None:
    """Compare the images of two data sets; None if the files do not say."""
    if (one.samples, one.synthetic) != (other.samples, other.synthetic):
        return False
    for name in ("content_sha256", "split_checksum"):
        values = getattr(one, name), getattr(other, name)
        if None not in values:
            return values[0] == values[1]
    return None


def other_test_sets(reference: Side, side: Side) -> set[str]:
    """Test sets whose images are not the reference's: their metrics do not compare."""
    one, other = reference.first.results, side.first.results
    if one is None or other is None:
        return set()
    shared = one.tests.keys() & other.tests.keys()
    return {name for name in shared if same_images(one.tests[name], other.tests[name]) is False}


def _notes(sides: Sequence[Side], foreign: Sequence[set[str]]) -> Iterator[str]:
    """One sentence for each reason."""
    for side in sides:
        run = side.first
        if run.results is None:
            of = f" of {run.planned}" if run.planned else ""
            yield f"{side.label} is not finished ({run.rounds}{of} rounds)."
        elif not run.history:
            yield f"{side.label} has no {HISTORY}: its norms are unknown, its losses are means."
        if run.summary.final_round is None:
            yield f"{side.label} has no evaluation yet."
        for edited in sorted({one.results.edited for one in side.runs if one.results} - {""}):
            yield f"{side.label}: {FILE_NAME} {edited}."
    last = {side.label: side.first.summary.final_round for side in sides}
    if len({round_ for round_ in last.values() if round_}) > 1:
        listed = ", ".join(f"{label} {round_}" for label, round_ in last.items() if round_)
        yield f"The last evaluations are of different rounds ({listed})."
    for side, domains in zip(sides[1:], foreign[1:], strict=True):
        labels = f"{sides[0].label} and {side.label}"
        for domain in sorted(domains):
            yield f"{labels} have different test images in {domain}: no difference is shown."
        if sides[0].seeds and side.seeds and sides[0].seeds != side.seeds:
            listed = " and ".join(", ".join(map(str, of.seeds)) for of in (sides[0], side))
            yield f"{labels} have different seeds ({listed}): random draws differ, too."
        one, other = sides[0].first.results, side.first.results
        if one is not None and other is not None:
            yield from (f"{labels} {text}" for text in _differences(one, other))


def _differences(one: Results, other: Results) -> Iterator[str]:
    if same_images(one.train, other.train) is False:
        yield "were trained on different images."
    elif one.train.partition_sha256 != other.train.partition_sha256:
        yield "have different splits: the training images are divided differently."
    for domain in sorted(one.tests.keys() & other.tests.keys()):
        if one.tests[domain].steps != other.tests[domain].steps:
            yield f"preprocess the test images of {domain} differently."
    if differs := [name for name in MACHINE if getattr(one, name) != getattr(other, name)]:
        yield (
            f"have different {' and '.join(differs)}: results may differ even for equal configs."
        )
