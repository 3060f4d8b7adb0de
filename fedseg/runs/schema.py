"""``results.json`` as typed structures, and a reader that is strict.

The classes below are the schema: every field of version :data:`VERSION`, with its meaning. A file
may hold more than they name, which hooks add. An older file is migrated where that is possible;
what it did not record is None then.
"""

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from fedseg.errors import DataError

VERSION = 2  # as fedseg.runs.results writes it
FILE_NAME = "results.json"
REWRITE = "tools/train.py CONFIG --work-dir DIR --resume writes it again from the run's checkpoint"


@dataclass(frozen=True)
class Model:
    """The network.

    Attributes:
        type: the model's class. network: the class of what it wraps (``Segmentor``), if it does.
        options: of the class, those that are numbers or text.
        parameters: how many numbers are trained.
    """

    type: str
    network: str | None
    options: dict[str, Any] | None
    parameters: int


@dataclass(frozen=True)
class DataEntry:
    """A data set as a run had it.

    Attributes:
        dataset: its class.
        samples: how many images.
        embedded: the images were rendered by this project: no published data set.
        split: what the config calls the split, a folder or ``"train"``.
        split_checksum: SHA-256 of the split's ids and file names, or of images and labels as they
            are stored. content_sha256: SHA-256 of images and labels in whatever order; for small
            images in memory. Each None where the data set has none.
        generated: corruptions that were made here, and are not the official files; None: unknown.
        steps: how the loader prepares an image, as configured. style: its style transfer.
        clients, partition, partition_sha256, batch_size: of the training set only: number of
            clients, the partition's recipe (type and options), SHA-256 over clients and their
            samples, samples a step (``"full"``: all of a client's).
    """

    dataset: str
    samples: int
    embedded: bool
    split: str | None
    split_checksum: str | None
    content_sha256: str | None
    generated: tuple[str, ...] | None
    steps: tuple[Any, ...] | None
    style: dict[str, Any] | None
    clients: int | None = None
    partition: dict[str, Any] | None = None
    partition_sha256: str | None = None
    batch_size: int | str | None = None


@dataclass(frozen=True)
class Participation:
    """Least and largest number of clients that took part in a round."""

    min: int
    max: int


@dataclass(frozen=True)
class Window:
    """The evaluations of the last rounds, over which benchmarks report the mean.

    Attributes:
        rounds: length of the window.
        evaluations: how many fell into it.
        mean, std: of each figure ``<domain>/<metric>``; std is not divided by n - 1.
    """

    rounds: int
    evaluations: int
    mean: dict[str, float]
    std: dict[str, float]


@dataclass(frozen=True)
class Curves:
    """Figures over the rounds that were evaluated; lists of one length.

    Attributes:
        rounds: which.
        bytes: sent from the first round to this one, both ways, all clients.
        loss: mean training loss since the evaluation before.
        figures: ``<domain>/<metric>`` -> values; None where an evaluation has no such figure.
    """

    rounds: tuple[int, ...]
    bytes: tuple[int, ...]
    loss: tuple[float | None, ...]
    figures: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Traffic:
    """Bytes of the whole run, all clients."""

    bytes_down: int
    bytes_up: int


@dataclass(frozen=True)
class Results:
    """A finished run.

    Attributes:
        schema_version: of the file as it was written.
        name: of the experiment, usually its config's.
        config_sha256: of the config. experiment_sha256: of what the seeds of an experiment share.
        versions: of Python, fedseg and the packages that figures depend on.
        device: such as ``"cpu"``. hardware: the GPU, or the CPU's instruction set.
        threads: that torch used.
        seed: of the run.
        rounds: of the config. completed_rounds: of the run. final_round: of the last evaluation.
        model: the network.
        algorithm, optim_wrapper: as configured. local_loss, averaging, batchnorm: likewise, or
            None.
        amp: whether it computed in bfloat16.
        data: ``"train"``, and ``"test:<domain>"`` for each test set.
        clients_per_round: participation.
        local_epochs, local_steps: length of local training; one of them is None.
        final: by domain, the figures of the last evaluation in percent, and details: ``IoU`` by
            class, ``corruptions`` by name and severity, and others.
        last_rounds: statistics of the evaluations at the end.
        curves: figures over rounds.
        communication: traffic.
        rejected_updates: how many updates of clients were not taken.
        seconds: ``train``, ``aggregate``, ``evaluate``, and ``wall`` for everything.
    """

    schema_version: int
    name: str
    config_sha256: str
    experiment_sha256: str | None
    versions: dict[str, str]
    device: str
    hardware: str | None
    threads: int
    seed: int
    rounds: int
    completed_rounds: int
    final_round: int
    model: Model
    algorithm: dict[str, Any]
    local_loss: dict[str, Any] | None
    optim_wrapper: dict[str, Any]
    averaging: dict[str, Any] | None
    batchnorm: dict[str, Any] | None
    amp: bool
    data: dict[str, DataEntry]
    clients_per_round: Participation
    local_epochs: int | None
    local_steps: int | None
    final: dict[str, dict[str, Any]]
    last_rounds: Window
    curves: Curves | None
    communication: Traffic
    rejected_updates: int
    seconds: dict[str, float]

    @property
    def train(self) -> DataEntry:
        """The training data."""
        return self.data["train"]

    @property
    def tests(self) -> dict[str, DataEntry]:
        """The test sets by domain."""
        prefix = "test:"
        return {k.removeprefix(prefix): v for k, v in self.data.items() if k.startswith(prefix)}

    @property
    def embedded(self) -> bool:
        """Whether any of the images were rendered."""
        return any(entry.embedded for entry in self.data.values())


def read_results(path: str | Path) -> Results:
    """Read and check a ``results.json``.

    Raises:
        DataError: it is missing, damaged, of another program, of a version that cannot be read, or
            of a run that is not finished; or a field is missing, of the wrong type or not finite.
            The message names file and field.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: is missing: the run is not finished, or this is no run's folder")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: is damaged ({error}); {REWRITE}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise DataError(f"{path}: is not a results.json of fedseg: it has no schema_version")
    if data.get("final_round", 0) is None:
        raise DataError(f"{path}: final_round: nothing was evaluated, so there is no figure")
    results = from_plain(Results, migrated(data, path), str(path))
    _check_run(results, path)
    return results


def experiment_key(results: Results) -> tuple:
    """What the seeds of one experiment share: the method, the data and who holds them."""
    method = results.experiment_sha256
    if method is None:  # written by an older fedseg
        parts = (
            results.name,
            results.rounds,
            results.model.type,
            results.algorithm,
            results.local_loss,
            results.optim_wrapper,
            results.averaging,
            results.batchnorm,
            results.amp,
            (results.local_epochs, results.local_steps),
            (results.clients_per_round.min, results.clients_per_round.max),
        )
        method = json.dumps(parts, sort_keys=True)
    return method, results.embedded, results.train.partition_sha256


# ---------------------------------------------------------------- versions


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 knew nothing of preparation, recipes, content, curves and hardware."""
    entries = data.get("data")
    names = ("split", "split_checksum", "content_sha256", "generated", "steps", "style")
    unknown = dict.fromkeys(names)
    if isinstance(entries, dict):
        entries = {
            name: {**unknown, **entry} if isinstance(entry, dict) else entry
            for name, entry in entries.items()
        }
    model = data.get("model")
    if isinstance(model, dict):
        model = {"network": None, "options": None, **model}
    added = dict.fromkeys(("experiment_sha256", "hardware", "curves", "local_loss"))
    return {**added, **data, "data": entries, "model": model}


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}
"""Version n -> what makes version n + 1 of it; ``schema_version`` itself stays."""


def migrated(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of a file as the present version has it.

    Raises:
        DataError: the version is newer than this, or there is no way from it to this one.
    """
    version = data["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int):
        raise DataError(f"{path}: schema_version: must be an integer, not {version!r}")
    if version > VERSION:
        raise DataError(
            f"{path}: has schema version {version}, and this fedseg reads versions up to "
            f"{VERSION}: update fedseg"
        )
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise DataError(
                f"{path}: has schema version {version}, which cannot be read any more; {REWRITE}"
            )
        data = MIGRATIONS[step](data)
    return data


# ---------------------------------------------------------------- from JSON to classes


def from_plain(kind: Any, value: Any, path: str, field: str = "") -> Any:
    """A value of JSON as an instance of a type, checked.

    Args:
        kind: a dataclass, ``int``, ``float``, ``str``, ``bool``, ``Any``, ``dict[str, X]``,
            ``tuple[X, ...]``, or a union of them. A whole number is a float too, a bool is no
            number.
        value: what JSON gave.
        path: the file. field: where in it; both for messages.

    Raises:
        DataError: names file, field, and what is wrong.
    """
    if kind is Any:
        _require_finite(value, path, field)
        return value
    if get_origin(kind) in (Union, types.UnionType):
        for option in get_args(kind):
            if option is types.NoneType:
                if value is None:
                    return None
            elif _is_plain(value, option):
                return from_plain(option, value, path, field)
        raise _wrong(kind, value, path, field)
    if not _is_plain(value, kind):
        raise _wrong(kind, value, path, field)
    if is_dataclass(kind):
        return _instance(kind, value, path, field)
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return {k: from_plain(inner, v, path, _join(field, k)) for k, v in value.items()}
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return tuple(from_plain(inner, v, path, f"{field}[{i}]") for i, v in enumerate(value))
    _require_finite(value, path, field)
    return float(value) if kind is float else value


def _instance(kind: type, value: Mapping[str, Any], path: str, field: str) -> Any:
    hints = get_type_hints(kind)
    found = {}
    for one in fields(kind):
        if one.name in value:
            where = _join(field, one.name)
            found[one.name] = from_plain(hints[one.name], value[one.name], path, where)
        elif one.default is MISSING:  # what has a default, only some entries have
            raise DataError(f"{path}: {_join(field, one.name)}: is missing; {REWRITE}")
    return kind(**found)


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether a JSON value can be of a type, seen from outside."""
    origin = get_origin(kind)
    if is_dataclass(kind) or origin is dict:
        return isinstance(value, dict)
    if origin is tuple:
        return isinstance(value, list)
    if kind in (int, float):
        numbers = int if kind is int else int | float
        return isinstance(value, numbers) and not isinstance(value, bool)
    return kind is Any or isinstance(value, kind)


NAMES = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


def _name(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_name(option) for option in get_args(kind))
    if kind is types.NoneType:
        return "null"
    if get_origin(kind) is tuple:
        return "a list"
    return NAMES.get(kind, "an object")


def _wrong(kind: Any, value: Any, path: str, field: str) -> DataError:
    told = "null" if value is None else repr(value)
    told = told if len(told) < 60 else f"{told[:57]}..."
    return DataError(f"{path}: {field}: must be {_name(kind)}, not {told}")


def _require_finite(value: Any, path: str, field: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{path}: {field}: must be a finite number, not {value!r}")
    if isinstance(value, dict):
        for key, inner in value.items():
            _require_finite(inner, path, _join(field, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _require_finite(inner, path, f"{field}[{number}]")


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


# ---------------------------------------------------------------- what makes sense


def _check_run(results: Results, path: Path) -> None:
    """Raise DataError unless a run is finished and its parts fit together."""
    if "train" not in results.data or results.train.clients is None:
        raise DataError(f"{path}: data.train.clients: is missing; {REWRITE}")
    if results.completed_rounds < results.rounds:
        raise DataError(
            f"{path}: completed_rounds: the run is not finished, it has "
            f"{results.completed_rounds} of {results.rounds} rounds; tools/train.py CONFIG "
            "--work-dir DIR --resume goes on with it"
        )
    if results.final_round != results.completed_rounds:
        raise DataError(
            f"{path}: final_round: the last evaluation is of round {results.final_round} of "
            f"{results.completed_rounds}: the last rounds are missing"
        )
    for domain, figures in results.final.items():
        for name, value in figures.items():
            if value is None:
                raise DataError(
                    f"{path}: final.{domain}.{name}: has no value: the figure was not finite"
                )
    if results.curves is not None:
        count = len(results.curves.rounds)
        columns = {
            "bytes": results.curves.bytes,
            "loss": results.curves.loss,
            **{f"figures.{name}": values for name, values in results.curves.figures.items()},
        }
        for name, values in columns.items():
            if len(values) != count:
                raise DataError(
                    f"{path}: curves.{name}: has {len(values)} values for {count} rounds"
                )
