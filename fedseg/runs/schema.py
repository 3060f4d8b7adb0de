"""``results.json`` as typed dataclasses, and its strict reader.

The dataclasses are the schema: every field of version :data:`RESULTS_SCHEMA_VERSION`. A file may
hold more, which hooks add.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fedseg.checks import is_number
from fedseg.errors import DataError
from fedseg.files import read_json
from fedseg.metric_names import MAIN_METRICS, Metric
from fedseg.runs.config_copy import recorded_config
from fedseg.runs.from_json import REWRITE, digest, from_plain, printable
from fedseg.runs.history import plain

RESULTS_SCHEMA_VERSION = 4  # of results.json
TEST_SCHEMA_VERSION = 1  # of test_results.json, which fedseg test writes
FILE_NAME = "results.json"
OWN_DIGEST = "results_sha256"
LARGEST_COUNT = 2**63 - 1
MOST_THREADS = 4096
EDITED = "was changed after the run wrote it: its numbers are not the run's"
UNSIGNED = f"has no checksum of itself ({OWN_DIGEST}): nothing tells whether it was changed"


@dataclass(frozen=True)
class Model:
    """The network."""

    type: str  # class of the model
    network: str | None  # class of the network that the model wraps (Segmentor), if it does
    options: dict[str, Any]  # those options of the model that are numbers or text
    parameters: int  # number of trainable parameters


@dataclass(frozen=True)
class DataEntry:
    """A data set as the run used it."""

    dataset: str  # its class
    samples: int  # number of images
    synthetic: bool  # whether this project rendered the images, so that they are no published data
    split: str | None  # name of the split in the config, a folder or "train"
    # SHA-256 of the split's ids and file names, or of images and labels in stored order
    split_checksum: str | None
    # SHA-256 of images and labels in any order, for small images in memory; None elsewhere
    content_sha256: str | None
    # corruptions that were generated here, not read from the official files
    generated: tuple[str, ...]
    steps: tuple[Any, ...]  # transforms of the loader, as configured
    style: dict[str, Any] | None  # style transfer of the loader, as configured
    # of the training set alone:
    clients: int | None = None  # number of clients
    partition: dict[str, Any] | None = None  # type and options of the partition
    partition_sha256: str | None = None  # of the clients and their samples
    batch_size: int | str | None = None  # images per step, or "full" for all of a client's


@dataclass(frozen=True)
class Participation:
    """Smallest and largest number of clients in a round."""

    min: int
    max: int

    def __str__(self) -> str:
        return str(self.max) if self.min == self.max else f"{self.min} to {self.max}"


@dataclass(frozen=True)
class Window:
    """The evaluations of the last rounds, whose mean benchmarks report."""

    rounds: int  # length of the window
    evaluations: int  # number of evaluations in it
    mean: dict[str, float]  # of each metric <domain>/<metric>
    std: dict[str, float]  # standard deviation, not divided by n - 1


@dataclass(frozen=True)
class Curves:
    """Metrics over the evaluated rounds, as lists of equal length."""

    rounds: tuple[int, ...]
    bytes: tuple[int, ...]  # sent since the start of the run, both ways, all clients
    loss: tuple[float | None, ...]  # mean training loss since the previous evaluation
    figures: dict[str, tuple[float | None, ...]]  # <domain>/<metric> -> values, None if missing

    def reach(self, metric: str, target: float) -> tuple[int, int] | None:
        """(round, bytes sent until then) of the first evaluation that reaches a target, or None."""
        columns = self.rounds, self.bytes, self.figures.get(metric, ())
        places = zip(*columns, strict=False)
        return next(((r, b) for r, b, v in places if v is not None and v >= target), None)


@dataclass(frozen=True)
class Traffic:
    """Bytes sent in the whole run, all clients."""

    bytes_down: int
    bytes_up: int


@dataclass(frozen=True)
class Results:
    """A finished run; components are as configured, or None."""

    schema_version: int
    name: str  # of the experiment, usually its config's
    config_sha256: str
    experiment_sha256: str  # of what all seeds of the experiment share
    versions: dict[str, str]  # of Python, fedseg and the packages that metrics depend on
    device: str  # such as "cpu"
    hardware: str  # name of the GPU, or instruction set of the CPU
    threads: int  # of torch
    seed: int
    rounds: int  # in the config
    completed_rounds: int
    final_round: int | None  # of the last evaluation; None if the run was never evaluated
    model: Model
    algorithm: dict[str, Any]
    local_loss: dict[str, Any] | None
    optim_wrapper: dict[str, Any]
    averaging: dict[str, Any] | None
    batchnorm: dict[str, Any] | None
    amp: bool  # whether the run computed in bfloat16
    data: dict[str, DataEntry]  # "train", and "test:<domain>" for each test set
    clients_per_round: Participation
    local_epochs: int | None  # length of local training: either this or local_steps
    local_steps: int | None
    # by domain: metrics of the last evaluation in percent, and details such as "IoU" by class and
    # "corruptions" by name and severity
    final: dict[str, dict[str, Any]]
    last_rounds: Window
    curves: Curves
    communication: Traffic
    rejected_updates: int  # number of client updates
    seconds: dict[str, float]  # "train", "aggregate", "evaluate", and "wall" in total
    protocol: dict[str, Any]  # see fedseg.runs.protocol
    setting: str | None = None  # of a composed config
    methods: tuple[str, ...] | None = None  # likewise
    load_from: str | None = None  # the checkpoint with whose weights it began; None: random ones
    config_json_sha256: str | None = None  # of the file config.json; None: there was none
    results_sha256: str | None = None  # of everything else in the file but "seconds"
    history_sha256: str | None = None  # of the lines of history.jsonl but for "seconds"
    # of the rounds from each "round" on: threads, device, hardware, versions; None: not recorded
    environments: tuple[dict[str, Any], ...] | None = None
    extras: dict[str, Any] = field(default_factory=dict)  # what hooks added, unchecked
    config: dict[str, Any] | None = None  # of config.json; not in the file
    edited: str = ""  # why the file is not known to be as the run wrote it; not in the file

    @property
    def train(self) -> DataEntry:
        """The training set."""
        return self.data["train"]

    @property
    def tests(self) -> dict[str, DataEntry]:
        """The test sets by domain."""
        return {k[len("test:") :]: v for k, v in self.data.items() if k.startswith("test:")}

    @property
    def synthetic(self) -> bool:
        """Whether any of the images were rendered."""
        return any(entry.synthetic for entry in self.data.values())


def own_digest(results: Mapping[str, Any]) -> str:
    """SHA-256 of the content of ``results.json`` but for itself and times, which always differ."""
    volatile = (OWN_DIGEST, "seconds")
    return digest({k: v for k, v in plain(dict(results)).items() if k not in volatile})


def read_results(path: str | Path, strict: bool = True, bounded: bool = True) -> Results:
    """Read and check a ``results.json``.

    Args:
        path: the file.
        strict: also refuse what cannot be ranked or compared: a run that was not finished or never
            evaluated, metrics without a value, curves of unequal length.
        bounded: if strict, refuse numbers that no run has, too, or that contradict each other.

    Raises:
        DataError: the file is missing, damaged, of another program or of an unreadable version; or
            a field is missing, of the wrong type or not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: is missing: the run is not finished, or this is no run's folder")
    content = read_json(path, REWRITE, strict=False)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise DataError(f"{path}: is not a results.json of fedseg: it has no schema_version")
    data = printable(content)
    _check_version(data, path)
    known = {one.name for one in fields(Results)} - {"extras", "edited", "config"}
    extras = {k: data.pop(k) for k in list(data) if k not in known}
    results = from_plain(Results, data, str(path))
    edited = "" if results.results_sha256 in (None, own_digest(content)) else EDITED
    if results.results_sha256 is None:
        edited = UNSIGNED
    try:
        config = recorded_config(path.parent, results.config_json_sha256)
    except DataError:
        config = None
    results = replace(results, extras=extras, edited=edited, config=config)
    if strict:
        _check_run(results, path)
        if bounded:
            check_bounds(results, path)
    return results


def _check_version(data: dict[str, Any], path: Path) -> None:
    """Raise DataError for a file of another version."""
    version = from_plain(int, data["schema_version"], str(path), "schema_version")
    if version > RESULTS_SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema_version: is {version}, this fedseg reads up to "
            f"{RESULTS_SCHEMA_VERSION}: update fedseg"
        )
    if version < RESULTS_SCHEMA_VERSION:
        raise DataError(f"{path}: schema_version: {version} can no longer be read; {REWRITE}")


# ---------------------------------------------------------------- consistency


def _check_run(results: Results, path: Path) -> None:
    """Raise DataError unless the run is finished and its parts fit together."""
    for name in ("clients", "partition", "partition_sha256"):
        if "train" not in results.data or getattr(results.train, name) is None:
            raise DataError(f"{path}: data.train.{name}: is missing; {REWRITE}")
    if results.final_round is None:
        raise DataError(f"{path}: final_round: the run was never evaluated")
    if results.completed_rounds < results.rounds:
        raise DataError(
            f"{path}: completed_rounds: the run is not finished, it has "
            f"{results.completed_rounds} of {results.rounds} rounds; fedseg train CONFIG "
            "--work-dir DIR --resume continues it"
        )
    if results.final_round != results.completed_rounds:
        raise DataError(
            f"{path}: final_round: the last evaluation is of round {results.final_round} of "
            f"{results.completed_rounds}"
        )
    for domain, metrics in results.final.items():
        for name, value in metrics.items():
            if value is None:
                raise DataError(f"{path}: final.{domain}.{name}: has no value, it was not finite")
    curves = results.curves
    columns = {"bytes": curves.bytes, "loss": curves.loss}
    columns |= {f"figures.{name}": values for name, values in curves.figures.items()}
    for name, values in columns.items():
        if len(values) != (count := len(curves.rounds)):
            raise DataError(f"{path}: curves.{name}: has {len(values)} values for {count} rounds")


def check_bounds(results: Results, path: Path, begin: str = "") -> None:
    """Raise DataError for a number that no run has, or that contradicts another one.

    ``begin``: of the names of the fields that are looked at.
    """
    for name, value, least, most in _bounds(results):
        if name.startswith(begin) and not least <= value <= most:
            unbounded = most == LARGEST_COUNT and value < least
            allowed = f"at least {least}" if unbounded else f"from {least} to {most}"
            allowed = str(least) if least == most else allowed
            raise DataError(f"{path}: {name}: is {value}, must be {allowed}; {REWRITE}")


def _bounds(results: Results) -> Iterator[tuple[str, float, float, float]]:
    """(field, value, least, most): the bounds that the writer of results keeps, whatever the run.

    The last evaluation is the curves' last one, of a round that is the last; a curve may lack
    values of it.
    """
    done, each = results.completed_rounds, results.clients_per_round
    sent, window = results.communication, results.last_rounds
    curves = results.curves
    yield "completed_rounds", done, 1, LARGEST_COUNT
    yield "rounds", results.rounds, 1, done
    yield "model.parameters", results.model.parameters, 1, LARGEST_COUNT
    yield "clients_per_round.min", each.min, 1, LARGEST_COUNT
    yield "clients_per_round.max", each.max, each.min, LARGEST_COUNT
    yield "threads", results.threads, 1, MOST_THREADS
    counts = {f"data.{name}.samples": entry.samples for name, entry in results.data.items()}
    counts |= {"communication.bytes_down": sent.bytes_down, "communication.bytes_up": sent.bytes_up}
    counts |= {"rejected_updates": results.rejected_updates}
    counts |= {"last_rounds.evaluations": window.evaluations}
    counts |= {f"seconds.{name}": value for name, value in results.seconds.items()}
    yield from ((name, value, 0, LARGEST_COUNT) for name, value in counts.items())
    before, total = 0, 0
    for i, (round_, bytes_) in enumerate(zip(curves.rounds, curves.bytes, strict=True)):
        yield f"curves.rounds[{i}]", round_, before + 1, done
        yield f"curves.bytes[{i}]", bytes_, total, LARGEST_COUNT
        before, total = round_, bytes_
    known = {(d, m): v for d, entry in results.final.items() for m, v in entry.items()}
    shares = [(m, f"final.{d}.{m}", [value]) for (d, m), value in known.items()]
    shares += [
        (Metric.parse(n).metric, f"last_rounds.mean.{n}", [v]) for n, v in window.mean.items()
    ]
    for name, values in curves.figures.items():
        domain, metric = (parsed := Metric.parse(name)).domain, parsed.metric
        shares.append((metric, f"curves.figures.{name}", values))
        final = known.get((domain, metric))
        if curves.rounds[-1:] == (done,) and is_number(final) and is_number(values[-1]):
            yield f"final.{domain}.{metric}", final, values[-1], values[-1]
    for metric, where, values in shares:
        if metric in MAIN_METRICS:
            yield from ((where, value, 0, 100) for value in values if is_number(value))
