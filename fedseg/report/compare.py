"""Runs side by side: metrics with their differences, what differs in configs, what each run cost.

A side of the comparison is one run, or several seeds of one experiment. The seed is the unit:
means, deviations and paired differences are over seeds, so that they say whether a difference would
come out again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedseg.checks import is_number
from fedseg.config.roles import ENVIRONMENT, METHOD, PROTOCOL, select
from fedseg.errors import DataError
from fedseg.metric_names import MAIN_METRICS, Metric, find_set, main_metric
from fedseg.names import short_names
from fedseg.runs.history import HISTORY
from fedseg.runs.run_files import RunFiles, is_run, read_run
from fedseg.runs.schema import FILE_NAME, DataEntry, Results
from fedseg.runs.tables import differing, experiment_key

MACHINE = ("versions", "device", "hardware", "threads")
NOT_CONDITIONS = ("steps", "style", "partition", "batch_size")  # of the data; the config has them
UNSET = (None, (), [])
COLUMNS = ("metric", "side", "seed", "value")  # of values by seed
STATISTICS = ("mean", "std", "count", "difference", "difference_std", "pairs")


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


@dataclass(frozen=True)
class Comparison:
    """Sides and how they differ.

    Attributes:
        sides: the reference first.
        config: differing keys (rows) by side, if all runs have a config.
        conditions: differing versions, hardware and checksums by side.
        last: :func:`compare_seeds` of the last evaluation.
        window: the same of the means over the last rounds.
        shares: share of the rounds in percent -> the same of the means over the window that ends
            there, of the main metric.
        reached: round and bytes of the first evaluation that reached the target, by run; None
            without a target.
        until: the target.
        costs: of each run, with its side.
        notes: what keeps the sides from being compared, in words.
    """

    sides: tuple[Side, ...]
    config: pd.DataFrame
    conditions: pd.DataFrame
    last: pd.DataFrame
    window: pd.DataFrame
    shares: Mapping[float, pd.DataFrame]
    reached: pd.DataFrame | None
    until: float | None
    costs: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def metrics(self) -> list[str]:
        """``<domain>/<metric>``, the main ones first."""
        return self.last.index.unique("metric").tolist()


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

    Args:
        sides: the reference first.
        until: a value of the main metric, in percent: also find when each run first reached it.
        shares: of the rounds, in percent, at which the main metric is of interest too.
    """
    results = [side.first.results for side in sides]
    configs = [side.first.config for side in sides]
    config = conditions = pd.DataFrame()
    notes = []
    if None in configs:
        notes.append("Not every run has a readable config.json: configs are not compared.")
    else:
        entries = [select(entry, METHOD, PROTOCOL, ENVIRONMENT) for entry in configs]
        config = _differing(sides, entries)
        if config.empty and len(sides) > 1:
            notes.append("The configs do not differ.")
    if None not in results:
        conditions = _differing(sides, [select(_conditions(entry)) for entry in results])
    foreign = {side.label: other_test_sets(sides[0], side) for side in sides}
    notes += _notes(sides, foreign)
    names = _metric_names(sides)
    main = main_metric(names)
    main_names = [name for name in names if Metric.parse(name).metric == main]
    last = _values(sides, names, lambda run: run.last)
    window = _values(sides, names, lambda run: run.window.mean)
    at_shares = {}
    for share in shares:
        values = _values(sides, main_names, lambda run, share=share: mean_at_share(run, share))
        at_shares[share] = compare_seeds(values, sides, foreign)
    return Comparison(
        sides=tuple(sides),
        config=config,
        conditions=conditions,
        last=compare_seeds(last, sides, foreign),
        window=compare_seeds(window, sides, foreign),
        shares=at_shares,
        reached=None if until is None else _reached(sides, main_names, until),
        until=until,
        costs=_costs(sides),
        notes=tuple(notes),
    )


def compare_seeds(
    values: pd.DataFrame, sides: Sequence[Side], foreign: Mapping[str, Collection[str]]
) -> pd.DataFrame:
    """Compare a value of each seed with the reference's of the same seed.

    Args:
        values: columns ``metric``, ``side``, ``seed``, ``value``; a row for each run.
        sides: the reference first.
        foreign: label of a side -> its test sets with other images than the reference's: nothing
            is subtracted there.

    Returns:
        By ``metric`` and ``side``: ``mean``, ``std`` (over seeds, divided by n - 1; NaN of a
        single one) and ``count``; ``difference`` to the reference with ``difference_std`` over
        ``pairs`` seeds that both have. Without such a seed it is the difference of the means, and
        ``pairs`` is 0.
    """
    keys = ["metric", "side"]
    table = values.groupby(keys, sort=False)["value"].agg(["mean", "std", "count"])
    if values.empty:
        return table.reindex(columns=list(STATISTICS))
    labels = [side.label for side in sides]
    reference = labels[0]
    by_seed = values.pivot(index=["metric", "seed"], columns="side", values="value")
    by_seed = by_seed.reindex(columns=labels)
    differences = by_seed.sub(by_seed[reference], axis=0).stack()
    paired = differences.groupby(keys).agg(["mean", "std", "count"]).reindex(table.index)
    means = table["mean"].unstack("side").reindex(columns=labels)
    unpaired = means.sub(means[reference], axis=0).stack().reindex(table.index)
    table["difference"] = paired["mean"].fillna(unpaired)
    table["difference_std"] = paired["std"]
    table["pairs"] = paired["count"]
    for metric, label in table.index:
        side = next(side for side in sides if side.label == label)
        is_foreign = find_set(Metric.parse(metric).domain, _test_names(side)) in foreign[label]
        if label == reference or is_foreign:
            table.loc[(metric, label), ["difference", "difference_std"]] = None
    return table


def _values(
    sides: Sequence[Side],
    names: Sequence[str],
    values_of: Callable[[RunFiles], Mapping[str, float]],
) -> pd.DataFrame:
    """Collect the values of metrics in every run; a run without a known seed is of seed -1."""
    rows = []
    for name in names:
        for side in sides:
            for run in side.runs:
                value = values_of(run).get(name)
                if value is not None:
                    rows.append((name, side.label, -1 if run.seed is None else run.seed, value))
    return pd.DataFrame(rows, columns=COLUMNS)


def _metric_names(sides: Sequence[Side]) -> list[str]:
    """List every metric, the main ones first, each with its domains together."""
    runs = [run for side in sides for run in side.runs]
    names = list(dict.fromkeys(name for run in runs for name in run.last))
    metrics = [Metric.parse(name).metric for name in names]
    order = list(dict.fromkeys((*MAIN_METRICS, *metrics)))
    return sorted(names, key=lambda name: order.index(Metric.parse(name).metric))


def mean_at_share(run: RunFiles, share: float) -> Mapping[str, float]:
    """Average the metrics over the window that ends at a share of the rounds, in percent."""
    end = round(share / 100 * (run.planned or run.rounds))
    if end > run.rounds:
        return {}
    return run.curves.average(end, run.window.rounds)["last_rounds"]["mean"]


def _reached(sides: Sequence[Side], names: Sequence[str], target: float) -> pd.DataFrame:
    """Find the first evaluation of each run that reached a target; NaN where none did."""
    rows = []
    for name in names:
        for side in sides:
            for run in side.runs:
                if run.series(name):
                    round_, sent = run.curves.reach(name, target) or (None, None)
                    rows.append((name, side.label, round_, sent))
    return pd.DataFrame(rows, columns=["metric", "side", "round", "bytes"])


def _costs(sides: Sequence[Side]) -> pd.DataFrame:
    """Collect what each run took: seconds, bytes, rounds, norms of the last round."""
    rows = []
    for side in sides:
        for run in side.runs:
            sent = run.summary.communication
            costs: dict[str, Any] = {}
            if run.history:
                costs.update(run.history[-1])
            costs.update(run.summary.seconds)
            costs.update(sent.model_dump())
            costs["bytes"] = sent.bytes_down + sent.bytes_up
            costs["rounds"] = run.rounds
            costs["rejected_updates"] = run.summary.rejected_updates
            numbers = {name: value for name, value in costs.items() if is_number(value)}
            rows.append({**numbers, "side": side.label})
    return pd.DataFrame(rows)


def _differing(sides: Sequence[Side], entries: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate the keys (rows) in which the sides' entries differ."""
    rows = differing(entries)
    labels = [side.label for side in sides]
    return pd.DataFrame(list(rows.values()), list(rows), labels, dtype=object)


def _conditions(results: Results) -> dict[str, Any]:
    conditions = {name: getattr(results, name) for name in MACHINE}
    for name, entry in results.data.items():
        fields = entry.model_dump().items()
        known = {k: v for k, v in fields if k not in NOT_CONDITIONS and v not in UNSET}
        conditions[f"data.{name}"] = known
    return conditions


def _test_names(side: Side) -> Collection[str]:
    return () if side.first.results is None else side.first.results.tests.keys()


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
    """Name test sets whose images are not the reference's: their metrics do not compare."""
    if reference.first.results is None or side.first.results is None:
        return set()
    tests, reference_tests = side.first.results.tests, reference.first.results.tests
    shared = tests.keys() & reference_tests.keys()
    return {name for name in shared if same_images(reference_tests[name], tests[name]) is False}


def _notes(sides: Sequence[Side], foreign: Mapping[str, set[str]]) -> Iterator[str]:
    """Write one sentence for each reason that keeps sides from being compared."""
    for side in sides:
        yield from _notes_on_side(side)
    rounds = {side.label: side.first.summary.final_round for side in sides}
    evaluated = {label: round_ for label, round_ in rounds.items() if round_}
    if len(set(evaluated.values())) > 1:
        listed = ", ".join(f"{label} {round_}" for label, round_ in evaluated.items())
        yield f"The last evaluations are of different rounds ({listed})."
    for side in sides[1:]:
        labels = f"{sides[0].label} and {side.label}"
        for text in _notes_on_pair(sides[0], side, foreign[side.label]):
            yield f"{labels} {text}"


def _notes_on_side(side: Side) -> Iterator[str]:
    run = side.first
    if run.results is None:
        planned = f" of {run.planned}" if run.planned else ""
        yield f"{side.label} is not finished ({run.rounds}{planned} rounds)."
    elif not run.history:
        yield f"{side.label} has no {HISTORY}: its norms are unknown, its losses are means."
    if run.summary.final_round is None:
        yield f"{side.label} has no evaluation yet."
    edited = {run.results.edited for run in side.runs if run.results}
    for text in sorted(edited - {""}):
        yield f"{side.label}: {FILE_NAME} {text}."


def _notes_on_pair(reference: Side, side: Side, foreign: set[str]) -> Iterator[str]:
    """Write how two sides differ; the sentences begin after their labels."""
    for domain in sorted(foreign):
        yield f"have different test images in {domain}: no difference is shown."
    if reference.seeds and side.seeds and reference.seeds != side.seeds:
        listed = f"{_listed(reference.seeds)} and {_listed(side.seeds)}"
        yield f"have different seeds ({listed}): random draws differ, too."
    if reference.first.results is not None and side.first.results is not None:
        yield from _notes_on_results(reference.first.results, side.first.results)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)


def _notes_on_results(reference: Results, results: Results) -> Iterator[str]:
    if same_images(reference.train, results.train) is False:
        yield "were trained on different images."
    elif reference.train.partition_sha256 != results.train.partition_sha256:
        yield "have different splits: the training images are divided differently."
    for domain in sorted(reference.tests.keys() & results.tests.keys()):
        if reference.tests[domain].steps != results.tests[domain].steps:
            yield f"preprocess the test images of {domain} differently."
    differing_names = []
    for name in MACHINE:
        if getattr(reference, name) != getattr(results, name):
            differing_names.append(name)
    if differing_names:
        yield (
            f"have different {' and '.join(differing_names)}: results may differ even for equal "
            "configs."
        )
