"""Runs beside one another: figures with their differences, cost, and what stands in the way.

A side of the comparison is one run, or several seeds of one experiment. Two kinds of deviation
occur and must not be confused:

- of one run, over the evaluations of its last rounds: how much the figure still moves;
- of several seeds, over the seeds: how much chance decides. Only this one tells whether a
  difference would come out again.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.report.compare_configs import differing, flat, read_config_copy
from fedseg.runs.history import History
from fedseg.runs.results import curves, window_statistics
from fedseg.runs.run_files import BY_DOMAIN, GLOBAL, MAIN_METRICS, is_number, main_metric
from fedseg.runs.schema import (
    FILE_NAME,
    Curves,
    DataEntry,
    Results,
    experiment_key,
    from_plain,
    read_results,
)

HISTORY = "history.jsonl"
WINDOW = 100  # rounds, unless the run says otherwise
CONDITIONS = ("versions", "device", "hardware", "threads", "data")
NOT_CONDITIONS = ("steps", "style", "partition", "batch_size")  # of the data; the config has them
NOT_RECORDED_CONFIG = (
    "schema_version",
    "name",
    "config_sha256",
    "experiment_sha256",
    "seed",
    "completed_rounds",
    "final_round",
    "final",
    "last_rounds",
    "curves",
    "communication",
    "rejected_updates",
    "seconds",
    *CONDITIONS,
)


@dataclass(frozen=True)
class Run:
    """What a run left, finished or not.

    Attributes:
        folder: its work dir. name: of the experiment.
        seed: None if an unfinished run's config is not there.
        rounds: that it has made. planned: of its config, if that is known.
        evaluated: the round of the last evaluation; None: there is none.
        window: rounds at the end over whose evaluations ``mean`` and ``std`` are.
        last: figures ``<domain>/<metric>`` of the last evaluation.
        mean, std: of the evaluations in the window; std is not divided by n - 1.
        evaluations: how many fell into it.
        curves: figures, loss and bytes over the evaluated rounds.
        losses: training loss by round, where there is a history.
        config: as written; None if there is no copy of it.
        results: None while the run is not finished.
        history: a record a round; may be empty for a finished run.
    """

    folder: Path
    name: str
    seed: int | None
    rounds: int
    planned: int | None
    evaluated: int | None
    window: int
    last: Mapping[str, float]
    mean: Mapping[str, float]
    std: Mapping[str, float]
    evaluations: int
    curves: Curves | None
    losses: Mapping[int, float]
    config: Mapping[str, Any] | None
    results: Results | None
    history: Sequence[Mapping[str, Any]]

    @property
    def finished(self) -> bool:
        """Whether it has a ``results.json``."""
        return self.results is not None

    def series(self, figure: str) -> dict[int, float]:
        """A figure by round, without evaluations that have no value."""
        if self.curves is None:
            return {}
        values = self.curves.figures.get(figure, ())
        pairs = zip(self.curves.rounds, values, strict=False)
        return {round_: value for round_, value in pairs if is_number(value)}


@dataclass(frozen=True)
class Side:
    """A run, or seeds of one experiment. The first side of a comparison is its reference.

    Attributes:
        label: ``A``, ``B``, ... path: as the user named it. runs: at least one.
    """

    label: str
    path: Path
    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """The run that speaks for config and data, in which seeds do not differ."""
        return self.runs[0]

    @property
    def folder(self) -> Path:
        """The run's work dir, or the folder of the seeds."""
        return self.path if self.path.is_dir() else self.path.parent


@dataclass(frozen=True)
class Value:
    """A mean over ``count`` rounds, evaluations or seeds (``over``), with its deviation.

    ``std`` is divided by n - 1 over seeds, by n over rounds and evaluations; None for a single one.
    ``over`` is empty for a value as it is, ``unpaired`` for a difference of means that share no
    seeds.
    """

    mean: float
    std: float | None = None
    count: int = 1
    over: str = ""


@dataclass(frozen=True)
class Cell:
    """A figure of a side.

    Attributes:
        last: of the last evaluation. window: over the evaluations of the last rounds.
        difference: of ``last`` to the reference's.
        paired: difference over rounds that both have evaluated, or of the means of seeds that both
            have. Each None where there is nothing, and for the reference the last two.
    """

    last: Value | None
    window: Value | None
    difference: Value | None = None
    paired: Value | None = None


@dataclass(frozen=True)
class Reached:
    """When a figure of a side first was at least a target.

    Attributes:
        round, bytes: of that evaluation, and sent until then; means over the seeds that got there,
            None if none did.
        seeds: how many did, of the side's.
    """

    round: Value | None
    bytes: Value | None
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """Sides, and all that is said of them.

    Attributes:
        sides: the reference first.
        config: differing keys, a value a side. complete: whether all of the configs are compared,
            or only what ``results.json`` records of them.
        conditions: differing versions, hardware and checksums, likewise.
        figures: ``<domain>/<metric>`` -> a cell a side.
        costs: what it took, by name; a number a side, or None.
        norms: of the parameters and of the pseudo-gradient in the last round, likewise.
        until: the target of ``reached``, or None.
        reached: figures of the main metric -> a value a side, None where a side has no curve of
            it; empty without a target.
        notes: what stands in the way of a comparison, in words.
    """

    sides: tuple[Side, ...]
    config: Mapping[str, tuple[Any, ...]]
    complete: bool
    conditions: Mapping[str, tuple[Any, ...]]
    figures: Mapping[str, tuple[Cell, ...]]
    costs: Mapping[str, tuple[float | None, ...]]
    norms: Mapping[str, tuple[float | None, ...]]
    until: float | None
    reached: Mapping[str, tuple[Reached | None, ...]]
    notes: tuple[str, ...]


# ---------------------------------------------------------------- reading


def read_sides(paths: Iterable[str | Path]) -> list[Side]:
    """Read work dirs, ``results.json`` files, or folders of seeds.

    Raises:
        DataError: one is missing, damaged, of another program, or holds several experiments.
    """
    return [
        Side(_label(number), Path(path), _runs(Path(path))) for number, path in enumerate(paths)
    ]


def _label(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"R{number + 1}"


def _runs(path: Path) -> tuple[Run, ...]:
    if not path.exists():
        raise DataError(f"{path}: does not exist: name a run's work dir or its {FILE_NAME}")
    if path.is_file() or _is_run(path):
        return (read_run(path),)
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and _is_run(folder))
    if not folders:
        raise DataError(
            f"{path}: holds no run, neither {FILE_NAME} nor {HISTORY}: name a run's work dir, or a "
            "folder of the work dirs of one experiment's seeds"
        )
    runs = tuple(read_run(folder) for folder in folders)
    for run in runs:
        if not run.finished and len(runs) > 1:
            raise DataError(
                f"{run.folder}: the run is not finished: of several seeds in one folder, each must "
                f"have its {FILE_NAME}; or name the runs one by one"
            )
    if len({experiment_key(run.results) for run in runs if run.results is not None}) > 1:
        names = ", ".join(folder.name for folder in folders[:5])
        raise DataError(
            f"{path}: holds runs of different experiments ({names}): name the runs one by one; a "
            "folder is for the seeds of one experiment"
        )
    seeds = [run.seed for run in runs]
    for run in runs:
        if seeds.count(run.seed) > 1:
            raise DataError(
                f"{path}: holds seed {run.seed} twice, once in {run.folder.name}: remove one of "
                "the runs, or name the runs one by one"
            )
    return tuple(sorted(runs, key=lambda run: run.seed or 0))


def _is_run(folder: Path) -> bool:
    return (folder / FILE_NAME).is_file() or (folder / HISTORY).is_file()


def read_run(path: str | Path) -> Run:
    """Read a work dir, or the ``results.json`` of one.

    Raises:
        DataError: ``results.json`` or ``history.jsonl`` is damaged or of another program, or there
            is neither.
    """
    path = Path(path)
    file = path if path.is_file() else path / FILE_NAME
    folder = file.parent
    alone = file.name != FILE_NAME  # what lies beside it may be of another run
    results = read_results(file) if file.is_file() else None
    history = [] if alone else read_history(folder / HISTORY)
    if results is not None:
        config = None if alone else _config_copy(folder, results.name)
        return _finished(folder, results, history, config)
    if not history:
        raise DataError(f"{folder / HISTORY}: has no round yet: there is nothing to compare")
    return _unfinished(folder, history, _config_copy(folder, folder.name))


def _config_copy(folder: Path, name: str) -> dict[str, Any] | None:
    """The config in a work dir; None if it is not there, or more than plain values."""
    copies = sorted(folder.glob("*.py"))
    own = [path for path in copies if path.stem == name] or copies
    if len(own) != 1:
        return None
    try:
        return read_config_copy(own[0])
    except DataError:
        return None


def _finished(
    folder: Path,
    results: Results,
    history: list[dict[str, Any]],
    config: Mapping[str, Any] | None,
) -> Run:
    window = results.last_rounds
    known = results.curves
    if known is None and history:  # written by an older fedseg
        known = _curves(history)
    return Run(
        folder=folder,
        name=results.name,
        seed=results.seed,
        rounds=results.completed_rounds,
        planned=results.rounds,
        evaluated=results.final_round,
        window=max(window.rounds, 1),
        last=_figures_of(results),
        mean=window.mean,
        std=window.std,
        evaluations=window.evaluations,
        curves=known,
        losses=_losses(history),
        config=config,
        results=results,
        history=history,
    )


def _figures_of(results: Results) -> dict[str, float]:
    """The figures of the last evaluation, without the details that stand beside them."""
    known = {*results.last_rounds.mean, *(results.curves.figures if results.curves else ())}
    return {
        f"{domain}/{metric}": value
        for domain, entry in results.final.items()
        for metric, value in entry.items()
        if f"{domain}/{metric}" in known and is_number(value)
    }


def _unfinished(
    folder: Path, history: list[dict[str, Any]], config: Mapping[str, Any] | None
) -> Run:
    train = _part(config, "train_cfg")
    rounds = history[-1]["round"]
    window = train.get("val_last_rounds")
    window = min(window if isinstance(window, int) and window > 0 else WINDOW, rounds)
    evaluated = [record for record in history if record.get("metrics")]
    found = window_statistics(history, rounds, window)
    seed, planned = _part(config, "randomness").get("seed"), train.get("max_rounds")
    name = (config or {}).get("experiment_name")
    return Run(
        folder=folder,
        name=name if isinstance(name, str) else folder.name,
        seed=seed if isinstance(seed, int) else None,
        rounds=rounds,
        planned=planned if isinstance(planned, int) else None,
        evaluated=evaluated[-1]["round"] if evaluated else None,
        window=window,
        last={n: v for n, v in evaluated[-1]["metrics"].items() if is_number(v)}
        if evaluated
        else {},
        mean=found["mean"],
        std=found["std"],
        evaluations=found["evaluations"],
        curves=_curves(history),
        losses=_losses(history),
        config=config,
        results=None,
        history=history,
    )


def _part(config: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    part = (config or {}).get(key)
    return part if isinstance(part, Mapping) else {}


def _curves(history: list[dict[str, Any]]) -> Curves:
    found = curves(history)
    return Curves(
        tuple(found["rounds"]),
        tuple(found["bytes"]),
        tuple(found["loss"]),
        {name: tuple(values) for name, values in found["figures"].items()},
    )


def _losses(history: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    return {r["round"]: r["loss"] for r in history if is_number(r.get("loss"))}


@dataclass(frozen=True)
class _Record:
    """What is read of a line of the history; a line holds more."""

    round: int
    participants: tuple[Any, ...]
    loss: float | None
    rejected: tuple[Any, ...]
    bytes_down: int
    bytes_up: int
    seconds: dict[str, float]
    metrics: dict[str, float | None]


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines of a ``history.jsonl``, checked; none if there is no file.

    Raises:
        DataError: it is damaged or of another program; the message names the line.
    """
    try:
        records = History(path).read()
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: is damaged: {error}") from error
    if not records and path.is_file() and path.stat().st_size > 0:
        raise DataError(f"{path}: is damaged, or no history of a fedseg run")
    last = 0
    for number, record in enumerate(records, start=1):
        where = f"{path}, line {number}"
        names = [name for name in _Record.__dataclass_fields__ if name != "metrics"]
        absent = [n for n in names if not isinstance(record, dict) or n not in record]
        if absent:
            raise DataError(f"{where}: has no {absent[0]!r}: is it the history of a fedseg run?")
        checked = from_plain(_Record, {"metrics": {}, **record}, where)
        if checked.round <= last:
            raise DataError(f"{where}: round {checked.round} comes after round {last}")
        last = checked.round
    return records


# ---------------------------------------------------------------- comparing


def compare(sides: Sequence[Side], until: float | None = None) -> Comparison:
    """Compare sides with the first of them.

    Args:
        sides: at least one.
        until: a value of the main metric, in percent: tell when each side first reached it.
    """
    runs = [side.first for side in sides]
    complete = all(run.config is not None for run in runs)
    if complete:
        configs = [flat(run.config or {}) for run in runs]
    else:
        configs = [flat(_recorded(run, NOT_RECORDED_CONFIG)) for run in runs if run.finished]
    same = len(configs) == len(runs)
    apart = [_other_tests(sides[0], side) for side in sides]
    names = dict.fromkeys(n for side in sides for run in side.runs for n in run.last)
    main = [] if until is None else _of_metric(main_metric(names), names)
    return Comparison(
        sides=tuple(sides),
        config=differing(configs) if same else {},
        complete=complete,
        conditions=differing([flat(_conditions(run)) for run in runs if run.finished])
        if all(run.finished for run in runs)
        else {},
        figures={name: _cells(name, sides, apart) for name in _by_metric(names)},
        costs=_measured(sides, COSTS),
        norms=_measured(sides, NORMS),
        until=until,
        reached={name: tuple(_reached(name, side, until) for side in sides) for name in main},
        notes=tuple(_notes(sides, apart, complete, same)),
    )


def _by_metric(names: Iterable[str]) -> list[str]:
    """Figures metric by metric, the main ones first; else in the order given."""
    metrics: dict[str, list[str]] = {metric: [] for metric in MAIN_METRICS}
    for name in names:
        metrics.setdefault(name.rpartition("/")[2], []).append(name)
    return [name for group in metrics.values() for name in group]


def _of_metric(metric: str | None, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.rpartition("/")[2] == metric]


def _recorded(run: Run, without: Iterable[str]) -> dict[str, Any]:
    """Fields of ``results.json``, nested."""
    found = asdict(run.results) if run.results is not None else {}
    for name in without:
        found.pop(name, None)
    return found


def _conditions(run: Run) -> dict[str, Any]:
    """Versions, hardware, data and their checksums."""
    found = {k: v for k, v in _recorded(run, ()).items() if k in CONDITIONS}
    found["data"] = {
        name: {k: v for k, v in entry.items() if k not in NOT_CONDITIONS and v not in (None, ())}
        for name, entry in found["data"].items()
    }
    return found


def _cells(name: str, sides: Sequence[Side], apart: Sequence[set[str]]) -> tuple[Cell, ...]:
    reference = sides[0]
    cells = [_own_cell(name, reference)]
    for side, other in zip(sides[1:], apart[1:], strict=True):
        cell = _own_cell(name, side)
        if domain_of(name) not in other:
            cell = Cell(
                cell.last,
                cell.window,
                _difference_of_last(name, reference, side),
                _paired(name, reference, side),
            )
        cells.append(cell)
    return tuple(cells)


def _own_cell(name: str, side: Side) -> Cell:
    if len(side.runs) > 1:
        return Cell(
            _over_seeds([run.last[name] for run in side.runs if name in run.last]),
            _over_seeds([run.mean[name] for run in side.runs if name in run.mean]),
        )
    run = side.first
    last = Value(run.last[name]) if name in run.last else None
    if name not in run.mean:
        return Cell(last, None)
    begin = run.rounds - run.window
    known = sum(round_ > begin for round_ in run.series(name)) or run.evaluations
    std = run.std.get(name) if known > 1 else None
    return Cell(last, Value(run.mean[name], std, known, "evaluations"))


def _over_seeds(values: Sequence[float]) -> Value | None:
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), std, len(values), "seeds")


def _difference_of_last(name: str, reference: Side, side: Side) -> Value | None:
    if len(reference.runs) == len(side.runs) == 1:
        one, other = reference.first.last.get(name), side.first.last.get(name)
        return None if one is None or other is None else Value(other - one)
    return _over_shared_seeds(
        {run.seed: run.last[name] for run in reference.runs if name in run.last},
        {run.seed: run.last[name] for run in side.runs if name in run.last},
    )


def _paired(name: str, reference: Side, side: Side) -> Value | None:
    """Over rounds that both have evaluated; with several seeds, over the seeds that both have."""
    if len(reference.runs) > 1 or len(side.runs) > 1:
        return _over_shared_seeds(
            {run.seed: run.mean[name] for run in reference.runs if name in run.mean},
            {run.seed: run.mean[name] for run in side.runs if name in run.mean},
        )
    one, other = reference.first.series(name), side.first.series(name)
    rounds = sorted(one.keys() & other.keys())
    if not rounds:
        return None
    window = min(reference.first.window, side.first.window)
    differences = [other[r] - one[r] for r in rounds if r > rounds[-1] - window]
    std = statistics.pstdev(differences) if len(differences) > 1 else None
    return Value(statistics.fmean(differences), std, len(differences), "rounds")


def _over_shared_seeds(
    one: Mapping[int | None, float], other: Mapping[int | None, float]
) -> Value | None:
    shared = [seed for seed in one if seed in other]
    if len(shared) > 1:
        return _over_seeds([other[seed] - one[seed] for seed in shared])
    if not one or not other:
        return None
    difference = statistics.fmean(other.values()) - statistics.fmean(one.values())
    return Value(difference, over="unpaired")


def domain_of(figure: str) -> str:
    """The test set of a figure: ``global:seen_by_domain/mIoU`` is of ``seen``."""
    domain = figure.rpartition("/")[0].removeprefix(GLOBAL)
    return domain.removesuffix(BY_DOMAIN)


def _reached(name: str, side: Side, target: float) -> Reached | None:
    """The first evaluation of a figure that is at least ``target``, over a side's runs."""
    found = []
    for run in side.runs:
        values = run.series(name)
        rounds = [round_ for round_, value in values.items() if value >= target]
        if rounds:
            found.append((rounds[0], run.curves.bytes[run.curves.rounds.index(rounds[0])]))
        elif not values:
            return None
    if len(side.runs) == 1:
        return Reached(*(map(Value, found[0]) if found else (None, None)), len(found))
    return Reached(
        _over_seeds([round_ for round_, _ in found]),
        _over_seeds([sent for _, sent in found]),
        len(found),
    )


def _traffic(run: Run, name: str) -> int:
    if run.results is not None:
        return getattr(run.results.communication, name)
    return sum(record[name] for record in run.history)


def _seconds(run: Run, name: str) -> float | None:
    if run.results is not None:
        return run.results.seconds.get(name)
    if name == "wall":  # a stopped run's is not known
        return None
    return sum(record["seconds"].get(name, 0.0) for record in run.history)


def _rejected(run: Run) -> int:
    if run.results is not None:
        return run.results.rejected_updates
    return sum(len(record["rejected"]) for record in run.history)


def _norm(run: Run, name: str) -> float | None:
    value = run.history[-1].get(name) if run.history else None
    return value if is_number(value) else None


Measure = Callable[[Run], float | None]
COSTS: Mapping[str, Measure] = {
    "rounds": lambda run: run.rounds,
    "bytes_down": lambda run: _traffic(run, "bytes_down"),
    "bytes_up": lambda run: _traffic(run, "bytes_up"),
    "bytes": lambda run: _traffic(run, "bytes_down") + _traffic(run, "bytes_up"),
    "wall": lambda run: _seconds(run, "wall"),
    "train": lambda run: _seconds(run, "train"),
    "aggregate": lambda run: _seconds(run, "aggregate"),
    "evaluate": lambda run: _seconds(run, "evaluate"),
    "rejected_updates": _rejected,
}
NORMS: Mapping[str, Measure] = {
    "norm_w": lambda run: _norm(run, "norm_w"),
    "norm_delta": lambda run: _norm(run, "norm_delta"),
}


def _measured(
    sides: Sequence[Side], measures: Mapping[str, Measure]
) -> dict[str, tuple[float | None, ...]]:
    """Traffic is in bytes, times in seconds; means over a side's seeds."""
    table = {}
    for name, of in measures.items():
        found = [[value for run in side.runs if (value := of(run)) is not None] for side in sides]
        table[name] = tuple(statistics.fmean(values) if values else None for values in found)
    return table


# ---------------------------------------------------------------- what stands in the way


def same_images(one: DataEntry, other: DataEntry) -> bool | None:
    """Whether two data sets hold the same images; None if the files do not tell."""
    if (one.samples, one.synthetic) != (other.samples, other.synthetic):
        return False
    for name in ("content_sha256", "split_checksum"):
        values = getattr(one, name), getattr(other, name)
        if None not in values:
            return values[0] == values[1]
    return None


def _other_tests(reference: Side, side: Side) -> set[str]:
    """Test sets whose images are not the reference's: their figures do not compare."""
    one, other = reference.first.results, side.first.results
    if one is None or other is None:
        return set()
    shared = one.tests.keys() & other.tests.keys()
    return {name for name in shared if same_images(one.tests[name], other.tests[name]) is False}


def _notes(
    sides: Sequence[Side], apart: Sequence[set[str]], complete: bool, same: bool
) -> Iterable[str]:
    reference = sides[0]
    for side in sides:
        run = side.first
        if not run.finished:
            of = f" of {run.planned}" if run.planned else ""
            yield (
                f"{side.label} is not finished: {run.rounds}{of} rounds, no {FILE_NAME} yet. Its "
                "last figures are those so far; versions and checksums are not known."
            )
        if run.evaluated is None:
            yield f"{side.label} has not evaluated anything yet."
    rounds = {side.label: side.first.evaluated for side in sides if side.first.evaluated}
    if len(set(rounds.values())) > 1:
        told = ", ".join(f"{label} {round_}" for label, round_ in rounds.items())
        yield (
            f"The last evaluations are of different rounds ({told}); paired differences compare "
            "equal rounds."
        )
    for side, domains in zip(sides[1:], apart[1:], strict=True):
        for domain in sorted(domains):
            yield (
                f"{side.label} was tested on other images in {domain} than {reference.label}: "
                "these figures do not compare, no difference is shown."
            )
        yield from _notes_of_results(reference, side)
    if same and not complete:
        yield (
            "Not every run has a readable copy of its config beside its results: compared is what "
            f"{FILE_NAME} records of it."
        )
    if not same:
        yield "Configs are not compared: an unfinished run has no readable copy of its config."


def _notes_of_results(reference: Side, side: Side) -> Iterable[str]:
    labels = f"{reference.label} and {side.label}"
    one, other = reference.first.results, side.first.results
    seeds = {run.seed for run in reference.runs}, {run.seed for run in side.runs}
    if seeds[0] != seeds[1] and None not in seeds[0] | seeds[1]:
        told = (", ".join(map(str, sorted(s))) for s in seeds)
        yield f"{labels} have other seeds ({' against '.join(told)}): chance differs too."
    if one is None or other is None:
        return
    if same_images(one.train, other.train) is False:
        yield f"{labels} were trained on other images."
    elif one.train.partition_sha256 != other.train.partition_sha256:
        yield f"In {labels} other clients hold the training images: it is another split."
    for domain in sorted(one.tests.keys() & other.tests.keys()):
        steps = one.tests[domain].steps, other.tests[domain].steps
        if None not in steps and steps[0] != steps[1]:
            yield f"{labels} prepare the test images of {domain} in other ways."
    where = ("versions", "device", "hardware", "threads")
    differs = [name for name in where if getattr(one, name) != getattr(other, name)]
    if differs:
        yield (
            f"{labels} were run with other {' and '.join(differs)}: even equal configs need not "
            "give equal bits."
        )
