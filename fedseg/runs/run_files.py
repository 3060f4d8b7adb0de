"""The one reader of a run's work dir, finished or not: results, history, config copy."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedseg.checks import is_number
from fedseg.errors import DataError
from fedseg.files import LARGEST
from fedseg.metric_names import flatten
from fedseg.runs.config_copy import recorded_config
from fedseg.runs.from_json import digest, from_plain
from fedseg.runs.history import History, plain, timeless
from fedseg.runs.results import summarized
from fedseg.runs.schema import FILE_NAME, Curves, Results, Traffic, Window, read_results
from fedseg.units import format_bytes

HISTORY = "history.jsonl"
WINDOW = 100  # rounds at the end, unless the config says otherwise


@dataclass(frozen=True)
class Summary:
    """Those fields of ``results.json`` that an unfinished run has, too."""

    final_round: int | None
    last_rounds: Window
    curves: Curves
    communication: Traffic
    rejected_updates: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class RunFiles:
    """What a run left."""

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
    def _of_history(self) -> Summary:
        length = self._option("train_cfg", "val_last_rounds")
        length = min(length if length and length > 0 else WINDOW, self.rounds)
        found = plain(summarized(list(self.history), self.rounds, length))
        names = ("train", "aggregate", "evaluate")
        found["seconds"] = {k: sum(r["seconds"].get(k, 0.0) for r in self.history) for k in names}
        return from_plain(Summary, found, str(self.folder / HISTORY))

    @property
    def summary(self) -> Results | Summary:
        """Evaluations, traffic and times: as recorded, or until now."""
        return self.results or self._of_history

    @cached_property
    def last(self) -> dict[str, float]:
        """Metrics ``<domain>/<metric>`` of the last evaluation, without those that are not finite.

        What ``results.final`` has besides (IoU by class, details of hooks) is left out.
        """
        if self.results is None:
            evaluated = [record["metrics"] for record in self.history if record.get("metrics")]
            found = evaluated[-1] if evaluated else {}
        else:
            known = {*self.window.mean, *self.curves.figures}
            final = flatten(self.results.final)
            found = {name: value for name, value in final.items() if name in known}
        return {name: value for name, value in found.items() if is_number(value)}

    @property
    def window(self) -> Window:
        """Mean and deviation of every metric over the evaluations of the last rounds."""
        return self.summary.last_rounds

    @property
    def curves(self) -> Curves:
        """Metrics, loss and bytes over the evaluated rounds."""
        return self.summary.curves

    @cached_property
    def losses(self) -> dict[int, float]:
        """Training loss by round; without a history, the mean up to each evaluation."""
        if not self.history:
            return _numbers(zip(self.curves.rounds, self.curves.loss, strict=True))
        return _numbers((record["round"], record["loss"]) for record in self.history)

    @cached_property
    def norms(self) -> dict[int, float]:
        """Norm of the global model's parameters by round (FedGloSS, figure 8)."""
        return _numbers((record["round"], record.get("norm_w")) for record in self.history)

    def series(self, name: str) -> dict[int, float]:
        """The values of ``<domain>/<metric>`` by round, where there is one."""
        curves = self.curves
        return _numbers(zip(curves.rounds, curves.figures.get(name, ()), strict=False))

    def _option(self, part: str, key: str) -> int | None:
        """A whole number of the config copy; None if it has none there."""
        options = (self.config or {}).get(part)
        value = options.get(key) if isinstance(options, Mapping) else None
        return value if isinstance(value, int) else None


def _numbers(pairs: Iterable[tuple[int, Any]]) -> dict[int, float]:
    return {round_: value for round_, value in pairs if is_number(value)}


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's work dir."""
    return os.path.lexists(folder / FILE_NAME) or (folder / HISTORY).is_file()


def read_run(path: str | Path, strict: bool = True) -> RunFiles:
    """Read a work dir, or the ``results.json`` of one; a file of another name is read alone.

    ``strict`` is as of :func:`fedseg.runs.schema.read_results`.

    Raises:
        DataError: a file is damaged or of another program, or there is none.
    """
    path = Path(path)
    file = path if path.is_file() else path / FILE_NAME
    folder = file.parent
    results = read_results(file, strict) if os.path.lexists(file) else None
    if file.name != FILE_NAME:  # what lies beside it may be of another run
        return RunFiles(folder, results, [])
    history = read_history(folder / HISTORY, finished=results is not None)
    if results is None and not history:
        raise DataError(f"{folder / HISTORY}: has no round yet")
    if results is not None and (folder / HISTORY).exists():
        _check_history(results, history, folder / HISTORY)
    try:
        checksum = results and results.config_json_sha256
        config = recorded_config(folder, checksum)
    except DataError:
        config = None
    return RunFiles(folder, results, history, config)


def _check_history(results: Results, history: list[dict[str, Any]], path: Path) -> None:
    """Raise DataError unless the history is that of the results."""
    fix = f"restore it from a copy; without it, {FILE_NAME} is read alone"
    if len(history) != results.completed_rounds:
        if len(history) > results.completed_rounds:  # or a run of an early version was prolonged
            fix = f"remove {FILE_NAME} if the run went on after it"
        raise DataError(
            f"{path}: has {len(history)} rounds, {FILE_NAME} {results.completed_rounds}: {fix}"
        )
    found = digest(timeless(history))
    if results.history_sha256 not in (None, found):
        raise DataError(f"{path}: is not the history that {FILE_NAME} was made of: {fix}")


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


def read_history(path: Path, finished: bool = False) -> list[dict[str, Any]]:
    """The lines of a ``history.jsonl``, checked; none if there is no file.

    No line of a ``finished`` run may be cut off.

    Raises:
        DataError: it is damaged or of another program; the message names the line.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size > LARGEST:
        told = f"{format_bytes(size)}, more than the {format_bytes(LARGEST)} that are read"
        raise DataError(f"{path}: has {told}")
    try:
        records = History(path).read(finished)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: is damaged: {error}") from error
    if not records and size:
        raise DataError(f"{path}: is damaged, or not the history of a run")
    for number, record in enumerate(records, start=1):
        where = f"{path}, line {number}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: is not the record of a round")
        record = {"metrics": {}, **record}
        for field in _Record.__dataclass_fields__:
            if field not in record:
                raise DataError(f"{where}: {field}: is missing")
        checked = from_plain(_Record, record, where)
        if checked.round != number:
            raise DataError(f"{where}: round: must be {number}, not {checked.round}")
    return records
