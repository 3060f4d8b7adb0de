"""The sides of a comparison: runs, or folders of one experiment's seeds."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedseg.errors import DataError
from fedseg.runs.run_files import HISTORY, RunFiles, is_run, read_run
from fedseg.runs.schema import FILE_NAME, experiment_key


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

    @property
    def folder(self) -> Path:
        """The run's work dir, or the folder of the seeds."""
        return self.path if self.path.is_dir() else self.path.parent

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
