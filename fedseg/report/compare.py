"""Runs side by side: metrics with their differences, what differs in configs, what each run cost.

A side of the comparison is one run, or several seeds of one experiment. The deviation of one run,
over the evaluations of its last rounds, says how much the metric still moves; only that of several
seeds says whether a difference would come out again.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedseg.checks import is_number
from fedseg.metric_names import MAIN_METRICS, Metric, main_metric
from fedseg.report.compare_sides import ENVIRONMENT, Side, notes, other_test_sets
from fedseg.runs.results import NOT_IDENTITY
from fedseg.runs.run_files import RunFiles

NOT_CONDITIONS = ("steps", "style", "partition", "batch_size")  # of the data; the config has them
# The seed has a column of its own; no metric of a run depends on what fedseg test does.
LEFT_OUT = (*NOT_IDENTITY, "randomness.seed", "test_cfg", "test_dataloader", "test_evaluator")
MISSING = "—"  # in place of a value, where a config has no such key
CONFIGURED = (  # what ``results.json`` records of the config
    *("rounds", "model", "algorithm", "local_loss", "optim_wrapper", "averaging", "batchnorm"),
    *("amp", "clients_per_round", "local_epochs", "local_steps"),
)


@dataclass(frozen=True)
class Value:
    """A mean over ``count`` rounds, evaluations or seeds (``over``), with its deviation.

    ``std`` is divided by n - 1 over seeds, by n over rounds and evaluations; None for a single one.
    ``over`` is empty for a value as it is, ``unpaired`` for means that share no seeds.
    """

    mean: float
    std: float | None = None
    count: int = 1
    over: str = ""


@dataclass(frozen=True)
class Reached:
    """When a metric of a side first was at least a target."""

    round: Value | None  # over the seeds that got there, as are the bytes; None if none did
    bytes: Value | None  # sent until then
    seeds: int  # how many got there, of the side's


@dataclass(frozen=True)
class Cell:
    """A metric of a side. What there is not is None."""

    last: Value | None  # of the last evaluation
    window: Value | None  # over the evaluations of the last rounds
    difference: Value | None = None  # of ``last`` to the reference's
    paired: Value | None = None  # over rounds that both evaluated, or means of seeds of both
    reached: Reached | None = None  # of a main metric with a curve, if there is a target


@dataclass(frozen=True)
class Comparison:
    """Sides and how they differ; by name, a value for each side."""

    sides: tuple[Side, ...]  # the reference first
    config: Mapping[str, tuple[Any, ...]]  # differing keys
    complete: bool  # whether all of the configs are compared, or what ``results.json`` says of them
    conditions: Mapping[str, tuple[Any, ...]]  # differing versions, hardware and checksums
    metrics: Mapping[str, tuple[Cell, ...]]  # ``<domain>/<metric>``
    costs: Mapping[str, tuple[float | None, ...]]  # in bytes and seconds; norms in the last round
    until: float | None  # the target of ``Cell.reached``
    notes: tuple[str, ...]  # what keeps the sides from being compared, in words


def compare(sides: Sequence[Side], until: float | None = None) -> Comparison:
    """Compare sides with the first of them.

    ``until``: a value of the main metric, in percent; also find when each side first reached it.
    """
    runs = [side.first for side in sides]
    configs = [flat(run.config) for run in runs if run.config is not None]
    complete = len(configs) == len(runs)
    recorded = [asdict(run.results) for run in runs if run.results is not None]
    if len(recorded) < len(runs):
        recorded = []
    if not complete:
        configs = [flat({name: each[name] for name in CONFIGURED}) for each in recorded]
    names = list(dict.fromkeys(name for side in sides for run in side.runs for name in run.last))
    # metric by metric, the main ones first
    metrics = dict.fromkeys((*MAIN_METRICS, *(Metric.parse(name).metric for name in names)))
    names = [name for metric in metrics for name in names if Metric.parse(name).metric == metric]
    main = main_metric(names)
    foreign = [other_test_sets(sides[0], side) for side in sides]
    table = {}
    for name in names:
        parsed = Metric.parse(name)
        cells = []
        for side, other_images in zip(sides, foreign, strict=True):
            comparable = side is not sides[0] and parsed.set not in other_images
            target = until if parsed.metric == main else None
            cells.append(_cell(name, side, sides[0] if comparable else None, target))
        table[name] = tuple(cells)
    return Comparison(
        sides=tuple(sides),
        config=differing(configs),
        complete=complete,
        conditions=differing(list(map(_conditions, recorded))),
        metrics=table,
        costs=_measured(sides),
        until=until,
        notes=tuple(notes(sides, foreign, complete, bool(configs))),
    )


# ---------------------------------------------------------------- configs, conditions


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key, as ``param_scheduler.0.type``, without those that do not change a run.

    A list is one value unless it holds dicts.
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        if isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
            value = dict(enumerate(value))
        if key in LEFT_OUT:
            continue
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{key}.")
        else:
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys in which flat configs differ, sorted: a value of each, or :data:`MISSING`."""
    keys = sorted({key for config in configs for key in config})
    values = {key: tuple(config.get(key, MISSING) for config in configs) for key in keys}
    return {key: row for key, row in values.items() if any(v != row[0] for v in row[1:])}


def _conditions(results: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, hardware, data and their checksums, by dotted key."""
    found = {name: results[name] for name in ENVIRONMENT}
    for name, entry in results["data"].items():
        kept = {k: v for k, v in entry.items() if k not in NOT_CONDITIONS and v not in (None, ())}
        found[f"data.{name}"] = kept
    return flat(found)


# ---------------------------------------------------------------- metrics


def _cell(name: str, side: Side, reference: Side | None, target: float | None) -> Cell:
    difference = paired = None
    if reference is not None:
        single = len(reference.runs) == len(side.runs) == 1
        over = "" if single else "unpaired"
        difference = _difference(side.last(name), reference.last(name), over)
        if single:
            paired = _paired_rounds(name, reference.first, side.first)
        else:
            paired = _difference(side.mean(name), reference.mean(name), over)
    last = _of_side(side, side.last(name).values())
    reached = None if target is None else _reached(name, side, target)
    return Cell(last, _window(name, side), difference, paired, reached)


def _of_side(side: Side, values: Collection[float]) -> Value | None:
    """A run's own value, or the mean over the seeds."""
    return Value(*values) if len(values) == len(side.runs) == 1 else _mean(values)


def _mean(
    values: Collection[float], over: str = "seeds", deviation: Any = statistics.stdev
) -> Value | None:
    if not values:
        return None
    std = deviation(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), std, len(values), over)


def _window(name: str, side: Side) -> Value | None:
    """The mean of a metric over the last rounds; of seeds, over their means."""
    run = side.first
    if len(side.runs) > 1 or name not in run.window.mean:
        return _mean(side.mean(name).values())
    begin = run.rounds - _length(run)
    count = sum(round_ > begin for round_ in run.series(name)) or run.window.evaluations
    std = run.window.std.get(name) if count > 1 else None
    return Value(run.window.mean[name], std, count, "evaluations")


def _length(run: RunFiles) -> int:
    return max(run.window.rounds, 1)


def _difference(values: Mapping[Any, float], of: Mapping[Any, float], over: str) -> Value | None:
    """Of values by seed: seed by seed where both sides have several of the same, else of means."""
    shared = [seed for seed in of if seed in values]
    if len(shared) > 1:
        return _mean([values[seed] - of[seed] for seed in shared])
    if not values or not of:
        return None
    return Value(statistics.fmean(values.values()) - statistics.fmean(of.values()), over=over)


def _paired_rounds(name: str, reference: RunFiles, run: RunFiles) -> Value | None:
    """Over the last of the rounds that both have evaluated."""
    of, values = reference.series(name), run.series(name)
    rounds = sorted(of.keys() & values.keys())
    begin = max(rounds, default=0) - min(_length(reference), _length(run))
    differences = [values[r] - of[r] for r in rounds if r > begin]
    return _mean(differences, "rounds", statistics.pstdev)


def _reached(name: str, side: Side, target: float) -> Reached | None:
    """The first evaluation of a metric that is at least ``target``, over a side's runs."""
    if not all(run.series(name) for run in side.runs):
        return None
    found = [first for run in side.runs if (first := run.curves.reach(name, target))]
    rounds, sent = [round_ for round_, _ in found], [bytes_ for _, bytes_ in found]
    return Reached(_of_side(side, rounds), _of_side(side, sent), len(found))


# ---------------------------------------------------------------- cost


def _costs(run: RunFiles) -> dict[str, float | None]:
    """In bytes and seconds; the wall time of an unfinished run is not known."""
    known = run.summary
    sent = asdict(known.communication)
    last = run.history[-1] if run.history else {}
    norms = {name: last.get(name) for name in ("norm_w", "norm_delta")}
    return {
        "rounds": run.rounds,
        **sent,
        "bytes": sum(sent.values()),
        **{name: known.seconds.get(name) for name in ("wall", "train", "aggregate", "evaluate")},
        "rejected_updates": known.rejected_updates,
        **{name: value if is_number(value) else None for name, value in norms.items()},
    }


def _measured(sides: Sequence[Side]) -> dict[str, tuple[float | None, ...]]:
    """Means over a side's seeds."""
    measured = [[_costs(run) for run in side.runs] for side in sides]
    table = {}
    for name in measured[0][0]:
        found = [[v for run in runs if (v := run[name]) is not None] for runs in measured]
        table[name] = tuple(statistics.fmean(values) if values else None for values in found)
    return table
