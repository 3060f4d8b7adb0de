"""``results.json`` as typed dataclasses, and its strict reader.

The dataclasses are the schema: every field of version :data:`RESULTS_SCHEMA_VERSION`. A file may
hold more, which hooks add. Older files are migrated; what they did not record is None.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.runs.from_json import REWRITE, from_plain

RESULTS_SCHEMA_VERSION = 3  # of results.json
TEST_SCHEMA_VERSION = 1  # of test_results.json, which tools/test.py writes
FILE_NAME = "results.json"


@dataclass(frozen=True)
class Model:
    """The network.

    Attributes:
        type: class of the model.
        network: class of the network that the model wraps (``Segmentor``), if it does.
        options: those options of the model that are numbers or text.
        parameters: number of trainable parameters.
    """

    type: str
    network: str | None
    options: dict[str, Any] | None
    parameters: int


@dataclass(frozen=True)
class DataEntry:
    """A data set as the run used it.

    Attributes:
        dataset: class of the data set.
        samples: number of images.
        synthetic: whether this project rendered the images, so that they are no published data.
        split: name of the split in the config, a folder or ``"train"``.
        split_checksum: SHA-256 of the split's ids and file names, or of images and labels in
            stored order; None where the data set has none.
        content_sha256: SHA-256 of images and labels in any order, for small images in memory;
            None elsewhere.
        generated: corruptions that were generated here instead of read from the official files;
            None: unknown.
        steps: transforms of the loader, as configured.
        style: style transfer of the loader, as configured.
        clients: number of clients; this and the following only for the training set.
        partition: type and options of the partition.
        partition_sha256: SHA-256 of the clients and their samples.
        batch_size: images per step, or ``"full"`` for all of a client's.
    """

    dataset: str
    samples: int
    synthetic: bool
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
    """Smallest and largest number of clients in a round."""

    min: int
    max: int


@dataclass(frozen=True)
class Window:
    """The evaluations of the last rounds, whose mean benchmarks report.

    Attributes:
        rounds: length of the window.
        evaluations: number of evaluations in it.
        mean: mean of each metric ``<domain>/<metric>``.
        std: standard deviation, not divided by n - 1.
    """

    rounds: int
    evaluations: int
    mean: dict[str, float]
    std: dict[str, float]


@dataclass(frozen=True)
class Curves:
    """Metrics over the evaluated rounds, as lists of equal length.

    Attributes:
        rounds: the evaluated rounds.
        bytes: bytes sent since the start of the run, both ways, all clients.
        loss: mean training loss since the previous evaluation.
        figures: ``<domain>/<metric>`` -> values; None where an evaluation lacks the metric.
    """

    rounds: tuple[int, ...]
    bytes: tuple[int, ...]
    loss: tuple[float | None, ...]
    figures: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Traffic:
    """Bytes sent in the whole run, all clients."""

    bytes_down: int
    bytes_up: int


@dataclass(frozen=True)
class Results:
    """A finished run.

    Attributes:
        schema_version: of the file as it was written.
        name: name of the experiment, usually its config's.
        config_sha256: of the config.
        experiment_sha256: of what all seeds of the experiment share.
        versions: of Python, fedseg and the packages that metrics depend on.
        device: such as ``"cpu"``.
        hardware: name of the GPU, or instruction set of the CPU.
        threads: of torch.
        seed: of the run.
        rounds: in the config.
        completed_rounds: in the run.
        final_round: of the last evaluation; None if the run was never evaluated.
        model: the network.
        algorithm, optim_wrapper: as configured.
        local_loss, averaging, batchnorm: as configured, or None.
        amp: whether the run computed in bfloat16.
        data: ``"train"``, and ``"test:<domain>"`` for each test set.
        clients_per_round: participation.
        local_epochs, local_steps: length of local training; one of them is None.
        final: by domain, the metrics of the last evaluation in percent, and details such as
            ``IoU`` by class and ``corruptions`` by name and severity.
        last_rounds: statistics of the last evaluations.
        curves: metrics over rounds.
        communication: traffic.
        rejected_updates: number of client updates that were rejected.
        seconds: ``train``, ``aggregate``, ``evaluate``, and ``wall`` in total.
        setting, methods: what the config was composed of; None if it was not, or not recorded.
        extras: what hooks added to the file, unchecked.
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
    final_round: int | None
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
    setting: str | None = None
    methods: tuple[str, ...] | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def train(self) -> DataEntry:
        """The training set."""
        return self.data["train"]

    @property
    def tests(self) -> dict[str, DataEntry]:
        """The test sets by domain."""
        prefix = "test:"
        return {k.removeprefix(prefix): v for k, v in self.data.items() if k.startswith(prefix)}

    @property
    def synthetic(self) -> bool:
        """Whether any of the images were rendered."""
        return any(entry.synthetic for entry in self.data.values())


def read_results(path: str | Path, strict: bool = True) -> Results:
    """Read and check a ``results.json``.

    Args:
        path: the file.
        strict: also refuse what cannot be ranked or compared: a run that was not finished or never
            evaluated, metrics without a value, curves of unequal length.

    Raises:
        DataError: the file is missing, damaged, of another program or of an unreadable version; or
            a field is missing, of the wrong type or not finite.
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
    known = {one.name for one in fields(Results)} - {"extras"}
    extras = {k: v for k, v in data.items() if k not in known}
    data = {k: v for k, v in migrated(data, path).items() if k in known}
    results = replace(from_plain(Results, data, str(path)), extras=extras)
    if strict:
        _check_run(results, path)
    return results


def experiment_key(results: Results) -> tuple:
    """What the seeds of one experiment share: the method, the data and their partition."""
    method = results.experiment_sha256
    if method is None:  # version 1
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
    return method, results.synthetic, results.train.partition_sha256


# ---------------------------------------------------------------- versions


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Version 2 added transforms, partitions, content, curves and hardware."""
    names = ("split", "split_checksum", "content_sha256", "generated", "steps", "style")
    model = data.get("model")
    if isinstance(model, dict):
        model = {"network": None, "options": None, **model}
    added = dict.fromkeys(("experiment_sha256", "hardware", "curves", "local_loss"))
    entries = _each(data.get("data"), lambda entry: {**dict.fromkeys(names), **entry})
    return {**added, **data, "data": entries, "model": model}


def _from_2(data: dict[str, Any]) -> dict[str, Any]:
    """Version 3 renamed ``embedded``, and may have ``setting`` and ``methods``."""

    def renamed(entry: dict[str, Any]) -> dict[str, Any]:
        return {"synthetic" if k == "embedded" else k: v for k, v in entry.items()}

    return {**data, "data": _each(data.get("data"), renamed)}


def _each(entries: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Change every entry of ``data``; what is no entry stays, to be refused later."""
    if not isinstance(entries, dict):
        return entries
    return {k: change(v) if isinstance(v, dict) else v for k, v in entries.items()}


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2}
"""Version n -> what turns it into version n + 1; ``schema_version`` itself stays."""


def migrated(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of a file in the present version.

    Raises:
        DataError: the version is newer than this one, or too old.
    """
    version = data["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int):
        raise DataError(f"{path}: schema_version: must be an integer, not {version!r}")
    if version > RESULTS_SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema_version: is {version}, this fedseg reads up to "
            f"{RESULTS_SCHEMA_VERSION}: update fedseg"
        )
    for step in range(max(version, 0), RESULTS_SCHEMA_VERSION):
        if step not in MIGRATIONS:
            raise DataError(f"{path}: schema_version: {version} can no longer be read; {REWRITE}")
        data = MIGRATIONS[step](data)
    return data


# ---------------------------------------------------------------- consistency


def _check_run(results: Results, path: Path) -> None:
    """Raise DataError unless the run is finished and its parts fit together."""
    if "train" not in results.data or results.train.clients is None:
        raise DataError(f"{path}: data.train.clients: is missing; {REWRITE}")
    if results.final_round is None:
        raise DataError(f"{path}: final_round: the run was never evaluated")
    if results.completed_rounds < results.rounds:
        raise DataError(
            f"{path}: completed_rounds: the run is not finished, it has "
            f"{results.completed_rounds} of {results.rounds} rounds; tools/train.py CONFIG "
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
    if results.curves is None:
        return
    columns = {
        "bytes": results.curves.bytes,
        "loss": results.curves.loss,
        **{f"figures.{name}": values for name, values in results.curves.figures.items()},
    }
    count = len(results.curves.rounds)
    for name, values in columns.items():
        if len(values) != count:
            raise DataError(f"{path}: curves.{name}: has {len(values)} values for {count} rounds")
