"""The one reader of a run's work dir, finished or not: results, history, config copy."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from fedseg.checks import is_number
from fedseg.config.schema import read_model
from fedseg.errors import DataError
from fedseg.files import LARGEST
from fedseg.metric_names import flatten
from fedseg.runs.config_copy import recorded_config
from fedseg.runs.config_facts import WINDOW
from fedseg.runs.figures import average_curves, summarize
from fedseg.runs.from_json import digest
from fedseg.runs.history import History, plain, timeless
from fedseg.runs.schema import (
    FILE_NAME,
    Count,
    Curves,
    FilePart,
    HistoryFacts,
    Number,
    Results,
    Traffic,
    Window,
    read_results,
)
from fedseg.units import format_bytes

HISTORY = "history.jsonl"


@dataclass(frozen=True)
class Summary:
    """Those fields of :class:`Results` that an unfinished run has, too."""

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
        length = self._option("train_cfg", "val_last_rounds") or 0
        path = self.folder / HISTORY
        facts = read_model(HistoryFacts, plain(summarize(self.history)), path)
        window = length if length > 0 else WINDOW
        averaged = average_curves(facts.curves, self.rounds, window)
        averaged["last_rounds"] = read_model(Window, averaged["last_rounds"], path)
        names = ("curves", "communication", "rejected_updates", "seconds")
        return Summary(**{name: getattr(facts, name) for name in names}, **averaged)

    @property
    def summary(self) -> Results | Summary:
        """Evaluations, traffic and times: as recorded, or until now."""
        return self.results or self._of_history

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
    found = digest(timeless(history))
    if results.history_sha256 not in (None, found):
        raise DataError(f"{path}: is not the history that {FILE_NAME} was made of: {fix}")


class Participant(FilePart):
    """A client's part in a round."""

    client: str
    samples: int | None = None
    steps: int | None = None
    loss: float | None = None


class Record(FilePart):
    """A line of ``history.jsonl``; hooks of a user's own may add fields."""

    round: int = Field(description="from 1")
    participants: list[Participant] = Field(
        description="`client`, `samples`, `steps`, `loss` (null if rejected) of each"
    )
    lr: Any = Field(None, description="local learning rate")
    loss: float | None = Field(
        description="mean of the accepted clients' losses (each the mean over its local steps), "
        "weighted by their samples"
    )
    rejected: list[Any] = Field(
        description="`client`, `exchange` (from 0), `reason`; a client rejected in both exchanges "
        "of a round appears, and is counted, twice"
    )
    bytes_down: Count = Field(description="traffic to all participants")
    bytes_up: Count = Field(description="traffic from all participants")
    seconds: dict[str, float] = Field(
        description="`train`, `aggregate`, `evaluate`, `data_wait` (part of `train`); with "
        "[workers](parallel.md) `busy`, in which one of them had something to do, on average"
    )
    restarts: Any = Field(
        None,
        description="why workers were lost and replaced, if any were; like `seconds` it says "
        "nothing about the results",
    )
    norm_w: Any = Field(None, description="Euclidean norm of the global model")
    norm_delta: Any = Field(
        None,
        description="norm of the pseudo-gradient: the mean over the accepted clients, weighted by "
        "their samples, of the received model minus the one that is sent (which for FedSpeed is "
        "not the trained model); `norm_...`: of a vector that the algorithm keeps on the server",
    )
    metrics: dict[str, Number | None] = Field({}, description="in rounds that were evaluated")
    client_accuracy: Any = Field(
        None,
        description="in evaluated rounds of classification: for each client, in the partition's "
        "order, the accuracy in percent with each class weighted by its share of the client's "
        "samples",
    )


RECORDS = TypeAdapter(list[Record])


def read_history(path: Path, finished: bool = False) -> list[dict[str, Any]]:
    """The lines of a ``history.jsonl``, checked; none if there is no file.

    No line of a ``finished`` run may be cut off.
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
    try:
        RECORDS.validate_python(records)
    except ValidationError as error:
        number = error.errors()[0]["loc"][0]
        read_model(Record, records[number], f"{path}, line {number + 1}")
    for number, record in enumerate(records, start=1):
        if record["round"] != number:
            wrong = f"round: must be {number}, not {record['round']}"
            raise DataError(f"{path}, line {number}: {wrong}")
    return records
