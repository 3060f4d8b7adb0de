"""``history.jsonl``, a line of JSON per round, and its summary: curves, means, traffic, times."""

import hashlib
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from fedseg.checks import shown
from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import ConfigError, DataError
from fedseg.names import NAME_RULE, is_name

HISTORY = "history.jsonl"
TIMES = ("train", "aggregate", "evaluate")
LARGEST_NUMBER = 1e300  # so that sums and means of several are finite, too


def _check_name(value: str) -> str:
    if not is_name(value):
        raise ValueError(f"must have {NAME_RULE}, not {shown(value, 80)}")
    return value


Count = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]
Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Seconds = Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]
Name = Annotated[str, AfterValidator(_check_name)]
# the same with a slash: metrics are of a domain, "seen/mIoU"
MetricName = Annotated[str, Field(pattern=r"^\w[\w .,+=:()\-/]{0,199}$")]
Text = Annotated[str, Field(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # that can be printed


class FilePart(BaseModel):
    """A part of a file; unknown keys are left out."""

    model_config = ConfigDict(**STRICT, frozen=True)


# ---------------------------------------------------------------- records


class Participant(FilePart):
    """A client's part in a round."""

    client: Name
    samples: int | None = None
    steps: int | None = None
    loss: Number | None = None


class Record(FilePart):
    """A line of ``history.jsonl``; hooks of a user's own may add fields."""

    round: int = Field(description="from 1")
    participants: list[Participant] = Field(
        description="`client`, `samples`, `steps`, `loss` (null if rejected) of each"
    )
    lr: Any = Field(None, description="local learning rate")
    loss: Number | None = Field(
        description="mean of the accepted clients' losses (each the mean over its local steps), "
        "weighted by their samples"
    )
    rejected: list[Any] = Field(
        description="`client`, `exchange` (from 0), `reason`; a client rejected in both exchanges "
        "of a round appears, and is counted, twice"
    )
    bytes_down: Count = Field(description="traffic to all participants")
    bytes_up: Count = Field(description="traffic from all participants")
    seconds: dict[str, Seconds] = Field(
        description="`train`, `aggregate`, `evaluate`, `data_wait` (part of `train`); with "
        "[workers](parallel.md) `busy`, their mean busy time"
    )
    restarts: Any = Field(
        None, description="why workers were lost and replaced, if any were; not in `history_sha256`"
    )
    norm_w: Any = Field(None, description="Euclidean norm of the global model")
    norm_delta: Any = Field(
        None,
        description="norm of the pseudo-gradient: the mean over the accepted clients, weighted by "
        "their samples, of the received model minus the model sent back (with FedSpeed not the "
        "trained one); `norm_...`: of a vector that the algorithm keeps on the server",
    )
    epsilon: Number | None = Field(
        None, description="with `privacy`: epsilon spent so far; null without noise"
    )
    metrics: dict[MetricName, Number | None] = Field(
        {}, description="in rounds that were evaluated"
    )
    initial_metrics: dict[MetricName, Number | None] | None = Field(
        None, description="in round 1, with `train_cfg.val_initial`: metrics of the initial model"
    )
    client_accuracy: Any = Field(
        None,
        description="in evaluated rounds of classification: for each client, in the partition's "
        "order, the accuracy in percent with each class weighted by its share of the client's "
        "samples",
    )


RECORDS = TypeAdapter(list[Record])


def plain(value: Any) -> Any:
    """The value as JSON takes it: a non-finite float is None, an array a list."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is not None and not isinstance(value, str | int | float):
        raise ConfigError(
            f"a hook or metric left a {type(value).__name__} in the history: give numbers, text, "
            "lists or dicts"
        )
    return value


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records without what the machine did, which differs from one computation to the next."""
    machine = "seconds", "restarts"
    return [{k: v for k, v in record.items() if k not in machine} for record in history]


class HistoryMark(FilePart):
    """The history at a checkpoint: the file's first bytes, by their number and SHA-256."""

    bytes: Count
    sha256: str


class History:
    """The lines of a run's rounds.

    A line is the file system's as soon as its round ends, so that a kill does not lose it. What a
    checkpoint builds on is on the disk before the checkpoint is: see :meth:`sync`. A checkpoint
    keeps the :class:`HistoryMark` of what was written until then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0  # that this run has written
        self._sha256 = hashlib.sha256()  # of these

    plain = staticmethod(plain)

    def append(self, record: dict[str, Any]) -> None:
        """Add the line of a round."""
        line = json.dumps(plain(record), allow_nan=False).encode() + b"\n"
        with open(self.path, "ab") as file:
            file.write(line)
        self._bytes += len(line)
        self._sha256.update(line)

    def sync(self) -> None:
        """Wait until every line is on the disk; too slow, milliseconds, for every short round."""
        if self.path.is_file():
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())

    def read(self, finished: bool = False) -> list[dict[str, Any]]:
        """All records; unless the run is finished, a last line that a kill cut off is left out."""
        lines, records = self._lines(), []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                if number < len(lines) or (finished and line != b"\n"):
                    raise DataError(f"{self.path}, line {number}: is damaged: {error}") from error
        return records

    # ---------------------------------------------------------------- the mark of a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """The :class:`HistoryMark` of what was written, as plain values."""
        return {"bytes": self._bytes, "sha256": self._sha256.hexdigest()}

    def load_state_dict(self, mark: Mapping[str, Any]) -> None:
        """Go on from a mark; what the file has after it stays until :meth:`truncate`.

        Raises:
            DataError: the file does not begin with the bytes that the mark is of.
        """
        self._set(self._content()[: mark["bytes"]])
        if self.state_dict() != mark:
            raise DataError(
                f"{self.path}: its first {mark['bytes']} bytes are not those that the run wrote: "
                "restore it from a copy"
            )

    def check(self) -> None:
        """Raise DataError if what the run wrote was changed."""
        self.load_state_dict(self.state_dict())

    def forget_last_line(self) -> None:
        """Go on as if the last line had not been written; the file has it until truncated."""
        lines = self._content()[: self._bytes].splitlines(keepends=True)
        self._set(b"".join(lines[:-1]))

    def truncate(self) -> None:
        """Cut off what is after the mark: lines of later rounds, and one that a kill cut."""
        if self.path.is_file():
            os.truncate(self.path, self._bytes)
            self.sync()

    def _set(self, content: bytes) -> None:
        self._bytes = len(content)
        self._sha256 = hashlib.sha256(content)

    def _content(self) -> bytes:
        return self.path.read_bytes() if self.path.is_file() else b""

    def _lines(self) -> list[bytes]:
        """Every line, and at last what follows the last line's end: nothing, or what a kill cut."""
        return [line + b"\n" for line in self._content().split(b"\n")]


def read_history(path: Path, finished: bool = False) -> list[dict[str, Any]]:
    """The lines of a ``history.jsonl``, checked; none if there is no file.

    No line of a ``finished`` run may be cut off.
    """
    size = path.stat().st_size if path.is_file() else 0
    records = History(path).read(finished)
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


# ---------------------------------------------------------------- summary


class Participation(FilePart):
    """Smallest and largest number of clients in a round."""

    min: Count
    max: Count

    @model_validator(mode="after")
    def _in_order(self) -> "Participation":
        if self.max < self.min:
            raise ValueError(f"max: is {self.max}, must be at least {self.min}")
        return self

    def __str__(self) -> str:
        return str(self.max) if self.min == self.max else f"{self.min} to {self.max}"


class Window(FilePart):
    """The evaluations of the last rounds, whose mean benchmarks report."""

    rounds: Count  # length of the window
    evaluations: Count
    mean: dict[MetricName, Number]  # by name of the metric
    std: dict[MetricName, Number]  # not divided by n - 1


class Curves(FilePart):
    """Metrics over the evaluated rounds, as lists of equal length."""

    rounds: list[Count]  # 0: before the first one
    bytes: list[Count]  # sent since the start of the run, both ways, all clients
    loss: list[Number | None]  # mean training loss since the previous evaluation
    figures: dict[MetricName, list[Number | None]]  # by name of the metric; None if it has no value

    @model_validator(mode="after")
    def _fit_together(self) -> "Curves":
        columns = {"bytes": self.bytes, "loss": self.loss}
        columns |= {f"figures.{name}": values for name, values in self.figures.items()}
        for name, values in columns.items():
            if len(values) != (count := len(self.rounds)):
                raise ValueError(f"{name}: has {len(values)} values for {count} rounds")
        for name, values, step in (("rounds", self.rounds, 1), ("bytes", self.bytes, 0)):
            for n in range(1, len(values)):
                if values[n] < (least := values[n - 1] + step):
                    raise ValueError(f"{name}[{n}]: is {values[n]}, must be at least {least}")
        return self

    def reach(self, metric: str, target: float) -> tuple[int, int] | None:
        """(round, bytes sent until then) of the first evaluation that reaches a target, or None."""
        columns = self.rounds, self.bytes, self.figures.get(metric, ())
        places = zip(*columns, strict=False)
        return next(((r, b) for r, b, v in places if v is not None and v >= target), None)

    def average(self, rounds: int, length: int) -> dict[str, Any]:
        """The last evaluated round, and means over the last ``length`` of so many ``rounds``.

        Fields of :class:`Summary`; later evaluations are left out of the means.
        """
        first = max(0, rounds - length)
        places = [n for n, round_ in enumerate(self.rounds) if first < round_ <= rounds]
        values = {
            name: [column[n] for n in places if column[n] is not None]
            for name, column in sorted(self.figures.items())
        }
        values = {name: column for name, column in values.items() if column}
        return {
            "final_round": self.rounds[-1] if self.rounds else None,
            "last_rounds": {
                "rounds": min(length, rounds),
                "evaluations": len(places),
                "mean": {name: statistics.fmean(column) for name, column in values.items()},
                "std": {name: statistics.pstdev(column) for name, column in values.items()},
            },
        }


class Traffic(FilePart):
    """Bytes sent in the whole run, all clients."""

    bytes_down: Count
    bytes_up: Count


class HistoryFacts(FilePart):
    """The summary of a history; ``results.json`` has it so that it can be read alone."""

    completed_rounds: Count = Field(description="rounds in the history")
    clients_per_round: Participation = Field(description="smallest and largest number")
    communication: Traffic = Field(description="bytes sent, all clients: `bytes_down`, `bytes_up`")
    rejected_updates: Count = Field(description="number of client updates that were not used")
    seconds: dict[str, Seconds] = Field(
        description="`train`, `aggregate`, `evaluate`; `wall` in total"
    )
    curves: Curves = Field(
        description="over the evaluated rounds, lists of equal length: `rounds`, `bytes` sent "
        "until then, mean training `loss` since the evaluation before, `figures` by metric"
    )


class Summary(HistoryFacts):
    """The same with what follows from the curves."""

    final_round: Count | None  # of the last evaluation; None if the run was never evaluated
    last_rounds: Window


def summarize(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of :class:`HistoryFacts`."""
    participants = [len(record["participants"]) for record in history] or [0]
    return {
        "completed_rounds": history[-1]["round"] if history else 0,
        "clients_per_round": {"min": min(participants), "max": max(participants)},
        "communication": {
            name: sum(record[name] for record in history) for name in ("bytes_down", "bytes_up")
        },
        "rejected_updates": sum(len(record["rejected"]) for record in history),
        "seconds": {n: sum(r["seconds"].get(n, 0.0) for r in history) for n in TIMES},
        "curves": draw_curves(history),
    }


def draw_curves(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of :class:`Curves`."""
    rounds: list[int] = []
    totals: list[int] = []
    losses: list[float | None] = []
    evaluations: list[Mapping[str, Any]] = []
    if history and history[0].get("initial_metrics") is not None:
        rounds.append(0)
        totals.append(0)
        losses.append(None)
        evaluations.append(history[0]["initial_metrics"])
    total = 0
    recent: list[float] = []  # losses since the last evaluation
    for record in history:
        total += record["bytes_down"] + record["bytes_up"]
        if record.get("loss") is not None:
            recent.append(record["loss"])
        if "metrics" in record:
            rounds.append(record["round"])
            totals.append(total)
            losses.append(statistics.fmean(recent) if recent else None)
            evaluations.append(record["metrics"])
            recent = []
    names: dict[str, None] = {}  # in their order
    for metrics in evaluations:
        names.update(dict.fromkeys(metrics))
    return {
        "rounds": rounds,
        "bytes": totals,
        "loss": losses,
        "figures": {name: [metrics.get(name) for metrics in evaluations] for name in names},
    }
