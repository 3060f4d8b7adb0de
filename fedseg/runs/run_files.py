"""Work dirs of runs, finished or not: results, history, config."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedseg.checks import is_number
from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import DataError
from fedseg.files import digest, own_path, read_json
from fedseg.metric_names import WINDOW, flatten
from fedseg.runs.config import recorded_config, resume_command
from fedseg.runs.curvature_files import with_curvature
from fedseg.runs.history import (
    HISTORY,
    Curves,
    HistoryFacts,
    MetricName,
    Name,
    Summary,
    Window,
    plain,
    read_history,
    summarize,
    timeless,
)
from fedseg.runs.schema import FILE_NAME, Results, check_percentages, read_results

CLIENTS = "clients.json"


class ClientsFile(BaseModel):
    """``clients.json``."""

    model_config = STRICT

    sets: Mapping[MetricName, Mapping[Name, Mapping[str, Any]]]  # by domain and client


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, finished or not."""

    folder: Path  # its work dir
    results: Results | None  # of a finished run
    history: Sequence[Mapping[str, Any]]  # a record per round; may be empty for a finished run
    config: Mapping[str, Any] | None = None  # None if there is no readable copy of it

    @property
    def name(self) -> str:
        """Of the experiment."""
        if self.results is not None:
            return self.results.name
        name = (self.config or {}).get("experiment_name")
        return name if isinstance(name, str) else self.folder.name

    @property
    def seed(self) -> int | None:
        """None if the run is not finished and its config is not there."""
        return self.results.seed if self.results else self._option("randomness", "seed")

    @property
    def rounds(self) -> int:
        """Rounds completed so far."""
        return self.results.completed_rounds if self.results else len(self.history)

    @property
    def planned(self) -> int | None:
        """Rounds of the config, if that is known."""
        return self.results.rounds if self.results else self._option("train_cfg", "max_rounds")

    @cached_property
    def summary(self) -> Summary:
        """Evaluations, traffic and times: as recorded, or until now."""
        if self.results is not None:
            return self.results
        path, content = self.folder / HISTORY, plain(summarize(self.history))
        curves = read_model(HistoryFacts, content, path).curves
        check_percentages(curves.figures, path)
        length = self._option("train_cfg", "val_last_rounds") or 0
        averages = curves.average(self.rounds, length if length > 0 else WINDOW)
        return read_model(Summary, {**content, **averages}, path)

    @cached_property
    def last(self) -> dict[str, float]:
        """Metrics of the last evaluation by name, without those that are not finite."""
        if self.results is None:
            evaluations = [record["metrics"] for record in self.history if record.get("metrics")]
            metrics = evaluations[-1] if evaluations else {}
        else:
            known = {*self.window.mean, *self.curves.figures}  # the rest are details
            metrics = {n: v for n, v in flatten(self.results.final).items() if n in known}
        return {name: value for name, value in metrics.items() if is_number(value)}

    @property
    def window(self) -> Window:
        """Mean and deviation of every metric over the evaluations of the last rounds."""
        return self.summary.last_rounds

    @property
    def curves(self) -> Curves:
        """Metrics, loss and bytes over the evaluated rounds."""
        return self.summary.curves

    @cached_property
    def clients(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Evaluated domain -> client or domain -> its values, of the last evaluation by client."""
        return {} if self.results is None else read_clients(self.folder)

    @cached_property
    def losses(self) -> dict[int, float]:
        """Training loss by round; without a history, the mean up to each evaluation."""
        if not self.history:
            return _numbers(zip(self.curves.rounds, self.curves.loss, strict=True))
        return _numbers((record["round"], record["loss"]) for record in self.history)

    def logged(self, name: str) -> dict[int, float]:
        """The numbers by round of an entry of the history's lines, such as ``norm_w``."""
        return _numbers((record["round"], record.get(name)) for record in self.history)

    def series(self, name: str) -> dict[int, float]:
        """The values of ``<domain>/<metric>`` by round, where there is one."""
        curves = self.curves
        return _numbers(zip(curves.rounds, curves.figures.get(name, ()), strict=False))

    def _option(self, part: str, key: str) -> int | None:
        """A whole number of the config copy; None if it has none there."""
        options = (self.config or {}).get(part)
        value = options.get(key) if isinstance(options, Mapping) else None
        return value if isinstance(value, int) else None


def read_clients(folder: Path) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The values of ``clients.json``: evaluated domain -> client or domain -> its values.

    Empty if the run counts by neither.
    """
    path = own_path(folder, CLIENTS)
    if not path.is_file():
        return {}
    return read_model(ClientsFile, read_json(path), path).sets


def _numbers(pairs: Iterable[tuple[int, Any]]) -> dict[int, float]:
    return {round_: value for round_, value in pairs if is_number(value)}


def is_run(folder: Path) -> bool:
    """True for a run's work dir."""
    return (folder / FILE_NAME).is_file() or (folder / HISTORY).is_file()


def read_run(path: str | Path, strict: bool = True) -> RunFiles:
    """Read a work dir, or the ``results.json`` of one; a file of another name is read alone.

    ``strict`` is as of :func:`fedseg.runs.schema.read_results`.
    """
    path = Path(path)
    file = path if path.is_file() else path / FILE_NAME
    folder = file.parent
    if os.path.lexists(file) and not file.is_file():
        raise DataError(f"{file}: must be a file, not a folder or a link to none: restore it")
    results = read_results(file, strict) if file.is_file() else None
    if file.name != FILE_NAME:  # what lies beside it may be of another run
        return RunFiles(folder, results, [])
    if not is_run(folder):
        raise DataError(f"{path}: has no run, neither {FILE_NAME} nor {HISTORY}: name its work dir")
    history = read_history(folder / HISTORY, finished=results is not None)
    if results is None and not history:
        raise DataError(f"{folder / HISTORY}: has no round yet")
    if results is not None and (folder / HISTORY).exists():
        _check_history(results, history, folder / HISTORY)
    if results is not None:
        return RunFiles(folder, results, history, results.config)
    try:
        return RunFiles(folder, None, history, recorded_config(folder))
    except DataError:
        return RunFiles(folder, None, history)


def _check_history(results: Results, history: list[dict[str, Any]], path: Path) -> None:
    """Raise DataError unless the history is that of the results."""
    fix = f"restore it from a copy; without it, {FILE_NAME} is read alone"
    if len(history) != results.completed_rounds:
        if len(history) > results.completed_rounds:  # or a run of an early version was prolonged
            fix = f"remove {FILE_NAME} if the run went on after it"
        raise DataError(
            f"{path}: has {len(history)} rounds, {FILE_NAME} {results.completed_rounds}: {fix}"
        )
    if results.history_sha256 not in (None, digest(timeless(history))):
        raise DataError(f"{path}: is not the history that {FILE_NAME} was made from: {fix}")


# ---------------------------------------------------------------- many runs


@dataclass(frozen=True)
class FoundRun:
    """A finished run."""

    id: str  # its number among the runs of a board, such as "run3"
    folder: Path  # its work dir
    changed: float  # when its results were written, in seconds since the epoch
    results: Results


def read_runs(paths: Iterable[str | Path]) -> tuple[list[FoundRun], list[str]]:
    """Read every ``results.json`` below some folders, or given ones.

    Runs are in the order of their paths; messages say what cannot be read or was edited.
    """
    messages: list[str] = []
    files: dict[str, Path] = {}  # real path -> the path as it is named
    for path in map(Path, paths):
        if not path.exists():
            messages.append(f"{path}: does not exist")
        for file in _find(path, messages):
            real = os.path.realpath(file)
            if real.isprintable():
                files[real] = file
            else:
                wrong = "has characters that cannot be printed: rename the folder"
                messages.append(f"{real!r}: {wrong}")
    runs: list[FoundRun] = []
    for file in files.values():
        try:
            results = with_curvature(read_results(file), file.parent, messages)
            run = FoundRun(
                id=f"run{len(runs) + 1}",
                folder=file.parent,
                changed=file.stat().st_mtime,
                results=results,
            )
            runs.append(run)
            if results.edited:
                messages.append(f"{file}: {results.edited}")
        except DataError as error:
            messages.append(str(error))
    if not files:
        messages.append(f"no {FILE_NAME} was found: name folders of finished runs")
    elif not runs:
        messages.append("no run could be read")
    return runs, list(dict.fromkeys(messages))


def _find(path: Path, messages: list[str]) -> Iterator[Path]:
    """The results below a path, in order; a message for a run that has none."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        if FILE_NAME in names:
            yield Path(folder) / FILE_NAME
        elif HISTORY in names:
            messages.append(
                f"{folder}: the run is not finished, it has no {FILE_NAME}: continue it with "
                f"{resume_command(Path(folder))}"
            )
