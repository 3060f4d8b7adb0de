"""The sides of a comparison: runs, or folders of seeds; what keeps them from being compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedseg.errors import DataError
from fedseg.runs.run_files import HISTORY, RunFiles, is_run, read_run
from fedseg.runs.schema import FILE_NAME, DataEntry, Results
from fedseg.runs.tables import experiment_key

ENVIRONMENT = ("versions", "device", "hardware", "threads")


@dataclass(frozen=True)
class Side:
    """A run, or seeds of one experiment. The first side of a comparison is its reference."""

    label: str  # ``A``, ``B``, ...
    path: Path  # as the user named it
    runs: tuple[RunFiles, ...]  # at least one, ordered by seed

    @property
    def first(self) -> RunFiles:
        """The run that stands for config and data, in which seeds do not differ."""
        return self.runs[0]

    def last(self, name: str) -> dict[int | None, float]:
        """A metric of the last evaluation, by seed."""
        return {run.seed: run.last[name] for run in self.runs if name in run.last}

    def mean(self, name: str) -> dict[int | None, float]:
        """Its mean over the last rounds, by seed."""
        return {run.seed: run.window.mean[name] for run in self.runs if name in run.window.mean}


def read_sides(paths: Iterable[str | Path]) -> list[Side]:
    """Read work dirs, ``results.json`` files, or folders of seeds.

    Raises:
        DataError: one is missing, damaged, of another program, or holds several experiments.
    """
    return [
        Side(chr(ord("A") + number) if number < 26 else f"R{number + 1}", path, _runs(path))
        for number, path in enumerate(map(Path, paths))
    ]


def _runs(path: Path) -> tuple[RunFiles, ...]:
    if not path.exists():
        raise DataError(f"{path}: does not exist: name a run's work dir or its {FILE_NAME}")
    if path.is_file() or is_run(path):
        return (read_run(path),)
    runs = [read_run(folder) for folder in sorted(path.iterdir()) if is_run(folder)]
    if not runs:
        raise DataError(f"{path}: holds no run, neither {FILE_NAME} nor {HISTORY}")
    alone = "name the runs one by one"
    for run in runs:
        if run.results is None and len(runs) > 1:
            raise DataError(f"{run.folder}: the run is not finished: wait for it, or {alone}")
    if len({experiment_key(run.results) for run in runs if run.results is not None}) > 1:
        raise DataError(f"{path}: holds runs of different experiments: {alone}")
    seeds = [run.seed for run in runs]
    for run in runs:
        if seeds.count(run.seed) > 1:
            raise DataError(f"{path}: holds seed {run.seed} twice: {alone}")
    return tuple(sorted(runs, key=lambda run: run.seed or 0))


# ---------------------------------------------------------------- what differs, in words


def same_images(one: DataEntry, other: DataEntry) -> bool | None:
    """Whether two data sets hold the same images; None if the files do not say."""
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


def notes(
    sides: Sequence[Side], foreign: Sequence[set[str]], complete: bool, compared: bool
) -> Iterable[str]:
    """One sentence for each reason; ``foreign`` has the test sets of each side with other images.

    ``complete`` and ``compared``: whether all of the configs were compared, or anything of them.
    """
    for side in sides:
        run = side.first
        if run.results is None:
            of = f" of {run.planned}" if run.planned else ""
            yield f"{side.label} is not finished ({run.rounds}{of} rounds)."
        elif not run.history:
            yield f"{side.label} has no {HISTORY}: its norms are unknown, its losses are means."
        if run.summary.final_round is None:
            yield f"{side.label} has no evaluation yet."
        edited = (one.results.edited for one in side.runs if one.results is not None)
        for text in sorted({*filter(None, edited)}):
            yield f"{side.label}: {FILE_NAME} {text}."
    last = {side.label: side.first.summary.final_round for side in sides}
    rounds = {label: round_ for label, round_ in last.items() if round_}
    if len(set(rounds.values())) > 1:
        listed = ", ".join(f"{label} {round_}" for label, round_ in rounds.items())
        yield f"The last evaluations are of different rounds ({listed})."
    for side, domains in zip(sides[1:], foreign[1:], strict=True):
        labels = f"{sides[0].label} and {side.label}"
        for domain in sorted(domains):
            yield f"{labels} have different test images in {domain}: no difference is shown."
        seeds = [
            sorted(run.seed for run in of.runs if run.seed is not None) for of in (sides[0], side)
        ]
        if all(seeds) and seeds[0] != seeds[1]:
            listed = " and ".join(", ".join(map(str, s)) for s in seeds)
            yield f"{labels} have different seeds ({listed}): chance differs too."
        one, other = sides[0].first.results, side.first.results
        if one is not None and other is not None:
            yield from (f"{labels} {text}" for text in _differences(one, other))
    if not complete:
        what = f"only what {FILE_NAME} records of it is" if compared else "configs are not"
        yield f"Not every run has a readable copy of its config: {what} compared."


def _differences(one: Results, other: Results) -> Iterable[str]:
    if same_images(one.train, other.train) is False:
        yield "were trained on different images."
    elif one.train.partition_sha256 != other.train.partition_sha256:
        yield "have different splits: other clients hold the training images."
    for domain in sorted(one.tests.keys() & other.tests.keys()):
        if one.tests[domain].steps != other.tests[domain].steps:
            yield f"preprocess the test images of {domain} differently."
    differs = [name for name in ENVIRONMENT if getattr(one, name) != getattr(other, name)]
    if differs:
        yield (
            f"have different {' and '.join(differs)}: even equal configs need not give equal bits."
        )
