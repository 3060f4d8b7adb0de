"""``results.json``: the schema, and its strict reader.

The file holds what nothing else beside it says. :class:`Results` has besides what the composed
config says (``config.json``) and what follows from the curves.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from fedseg.checks import is_number, shown, walk
from fedseg.config.arguments import read_model
from fedseg.errors import DataError
from fedseg.files import digest, read_json
from fedseg.metric_names import MAIN_METRICS, WINDOW, Metric, flatten
from fedseg.runs.config import (
    CONFIG_FILE,
    REWRITE,
    config_facts,
    loader_facts,
    loaders,
    recorded_config,
    resume_command,
)
from fedseg.runs.history import (
    LARGEST_NUMBER,
    Count,
    FilePart,
    HistoryFacts,
    MetricName,
    Name,
    Positive,
    Summary,
    Text,
    plain,
)

RESULTS_SCHEMA_VERSION = 5  # of results.json
TEST_SCHEMA_VERSION = 1  # of test_results.json, which fedseg test writes
FILE_NAME = "results.json"
OWN_DIGEST = "results_sha256"
WHEN = ("seconds", "year")  # depend on when a run was computed
EDITED = "was changed after the run wrote it: its numbers are not the run's"
UNSIGNED = f"has no checksum of itself ({OWN_DIGEST}): nothing tells whether it was changed"


def _check_plain(value: Any) -> Any:
    """A JSON value whose numbers are finite, and whose keys and texts can be printed."""
    for place, part in walk(value):
        keys = place.replace("\n", "")  # a class of Shakespeare's characters
        if not keys.isprintable() or (isinstance(part, str) and not part.isprintable()):
            raise ValueError(f"{place!r}: must be text that can be printed, not {shown(part, 40)}")
        if isinstance(part, int | float) and not abs(part) <= LARGEST_NUMBER:
            where = f"{place}: " if place else ""
            raise ValueError(f"{where}must be a finite number below {LARGEST_NUMBER:g}")
    return value


Plain = Annotated[Any, AfterValidator(_check_plain)]
Component = Annotated[dict[str, Any], AfterValidator(_check_plain)]


class Model(FilePart):
    """The network."""

    type: Text = Field(description="class of the model")
    network: Text | None = Field(description="class of the network that the model wraps")
    options: Component = Field(description="options of the model that are numbers or text")
    parameters: Positive = Field(description="number of trainable parameters")


class DataFacts(FilePart):
    """A data set as the run used it."""

    dataset: Text = Field(description="its class")
    samples: Count = Field(
        description="number of images that the clients train on, or that are tested; mirrored ones "
        "count too"
    )
    synthetic: bool = Field(description="whether the images are rendered by fedseg")
    split_checksum: Text | None = Field(
        description="SHA-256 of the split's ids and file names, or of images and labels in order"
    )
    content_sha256: Text | None = Field(
        description="SHA-256 of images and labels in any order, for small images in memory"
    )
    unofficial: bool = Field(
        False, description="whether the images come from `.npz` files, not from the official ones"
    )
    clients: Positive | None = Field(None, description="training set: number of clients")
    partition_sha256: Text | None = Field(
        None, description="training set: SHA-256 of the clients and their samples"
    )


class DataEntry(DataFacts):
    """The same with what the config says of it."""

    split: Text | None  # name of the split, a folder or "train"
    steps: list[Plain]  # transforms of the loader
    style: Component | None  # style transfer of the loader
    # of the training set alone:
    partition: Component | None = None  # type and options
    batch_size: Count | Text | None = None  # images per step, or "full" for all of a client's


class ResultsFile(HistoryFacts):
    """``results.json`` without what hooks add."""

    schema_version: int = Field(description="version of the file, 5")
    name: Name = Field(description="of the experiment")
    seed: Count = Field(description="of the run")
    year: Annotated[int, Field(ge=1970, le=9999)] | None = Field(
        None, description="in which the last round was finished"
    )
    config_sha256: Text = Field(description="checksum of the config")
    experiment_sha256: Text = Field(description="the same for all seeds of an experiment")
    config_json_sha256: Text = Field(description="checksum of the file `config.json`")
    versions: dict[Text, Text] = Field(description="of Python, fedseg and the packages it needs")
    device: Text = Field(description="such as `cpu`")
    hardware: Text = Field(description="name of the GPU, or instruction set of the CPU")
    threads: Annotated[int, Field(ge=1, le=4096)] = Field(description="of PyTorch")
    environments: list[Component] | None = Field(
        None,
        description="`threads`, `device`, `hardware` and versions with the first `round` that used "
        "them: several if a resume changed them",
    )
    parameters: Positive = Field(description="number of trainable parameters")
    initial_sha256: Text | None = Field(
        None, description="SHA-256 of the weights and buffers with which training began, by name"
    )
    data: dict[Name, DataFacts] = Field(description="`train`, and `test:<domain>` of each test set")
    final: dict[MetricName, dict[str, Plain]] = Field(
        description="the last evaluation by domain: metrics in percent, and details such as `IoU` "
        "by class, `accuracy_by_class`, `corruptions` by name and severity"
    )
    history_sha256: Text | None = Field(
        None, description="checksum of the lines of `history.jsonl` except `seconds` and `restarts`"
    )
    results_sha256: Text | None = Field(
        None, description="checksum of everything else in the file except `seconds` and `year`"
    )
    # not in the file by these names:
    extras: dict[str, Any] = {}  # what hooks added, unchecked
    edited: str = ""  # why the file is not known to be as the run wrote it


class Results(ResultsFile, Summary):
    """A finished run; components are as configured, or None."""

    data: dict[Name, DataEntry]
    # the content of config.json, and what it says:
    config: dict[str, Any]
    rounds: Positive
    setting: Name | None = None  # of a composed config
    methods: list[Name] | None = None  # likewise
    load_from: Text | None = None  # the checkpoint with whose weights it began; None: random ones
    model: Model
    algorithm: Component
    local_loss: Component | None
    optim_wrapper: Component
    averaging: Component | None
    amp: bool  # whether the run computed in bfloat16
    local_epochs: Count | None  # length of local training: either this or local_steps
    local_steps: Count | None

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
        """True if any of the images were rendered."""
        return any(entry.synthetic for entry in self.data.values())


def own_digest(results: Mapping[str, Any]) -> str:
    """SHA-256 of the content of ``results.json`` but for itself and times."""
    return digest({k: v for k, v in results.items() if k not in (OWN_DIGEST, *WHEN)})


def read_results(path: str | Path, strict: bool = True) -> Results:
    """Read and check a ``results.json``, and the ``config.json`` beside it.

    ``strict`` also refuses what cannot be ranked or compared: a run that was not finished or never
    evaluated, metrics without a value or out of their range.
    """
    path = Path(path)
    file = read_results_file(path)
    config = recorded_config(path.parent, file.config_json_sha256)
    results = with_config(file, config, path.parent / CONFIG_FILE)
    if strict:
        _check_rankable(results, path)
    return results


def read_results_file(path: Path) -> ResultsFile:
    """A ``results.json`` alone."""
    if not path.is_file():
        raise DataError(f"{path}: is missing: the run is not finished, or this is no run's folder")
    content = read_json(path, REWRITE)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise DataError(f"{path}: is not a results.json of fedseg: it has no schema_version")
    version = content["schema_version"]
    if version != RESULTS_SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema_version: must be {RESULTS_SCHEMA_VERSION}, not {shown(version, 20)}: "
            f"update fedseg if it is older than the file, else {REWRITE}"
        )
    edited = "" if content.get(OWN_DIGEST) == own_digest(content) else EDITED
    edited = UNSIGNED if content.get(OWN_DIGEST) is None else edited
    known = ResultsFile.model_fields.keys() - {"extras", "edited"}
    extras = {key: content.pop(key) for key in content.keys() - known}
    return read_model(ResultsFile, {**content, "extras": extras, "edited": edited}, path, REWRITE)


def with_config(file: ResultsFile, config: Mapping[str, Any], path: Path) -> Results:
    """A file's content with what the recorded config says, and what follows from the curves.

    Args:
        path: of the config, for messages.
    """
    try:
        derived = {"config": config, **plain(config_facts(config))}
        window = config["train_cfg"].get("val_last_rounds", WINDOW)
        derived |= file.curves.average(derived["rounds"], window)
        by_loader = {name: loader_facts(loader) for name, loader in loaders(config).items()}
    except Exception as error:  # any value may be of any kind
        raise DataError(f"{path}: is not the config of a run ({error!r})") from error
    derived["model"]["parameters"] = file.parameters
    unknown = {"split": None, "steps": [], "style": None}  # of a set that the config does not have
    derived["data"] = {
        name: {**unknown, **entry.model_dump(), **by_loader.get(name, {})}
        for name, entry in file.data.items()
    }
    return read_model(Results, {**file.model_dump(), **derived}, path)


def _check_rankable(results: Results, path: Path) -> None:
    """Raise DataError unless the run is finished and its numbers fit together."""
    for name in ("clients", "partition", "partition_sha256"):
        if "train" not in results.data or getattr(results.train, name) is None:
            raise DataError(f"{path}: data.train.{name}: is missing; {REWRITE}")
    if results.clients_per_round.min < 1 and not results.extras.get("privacy"):
        raise DataError(f"{path}: clients_per_round.min: is 0, must be at least 1; {REWRITE}")
    done, last = results.completed_rounds, results.final_round
    if last is None:
        raise DataError(f"{path}: final_round: the run was never evaluated")
    check_finished(results, path)
    if last != done:
        raise DataError(f"{path}: final_round: the last evaluation is of round {last} of {done}")
    curves, final = results.curves, flatten(results.final)
    if curves.rounds and curves.rounds[-1] > done:
        raise DataError(f"{path}: curves.rounds: has {curves.rounds[-1]}, the last one is {done}")
    for name, value in final.items():
        field, last_value = f"final.{name.replace('/', '.')}", curves.figures.get(name, [None])[-1:]
        if value is None:
            raise DataError(f"{path}: {field}: has no value, it was not finite")
        if curves.rounds[-1:] == [done] and last_value not in ([None], [value]):
            raise DataError(f"{path}: {field}: is {value}, must be {last_value[0]}; {REWRITE}")
    columns = {name: [value, *curves.figures.get(name, [])] for name, value in final.items()}
    for name, mean in results.last_rounds.mean.items():
        columns.setdefault(name, []).append(mean)
    check_percentages(columns, path, f"; {REWRITE}")


def check_finished(results: Results, path: Path) -> None:
    """Raise DataError unless every round was trained."""
    done = results.completed_rounds
    if done < results.rounds:
        raise DataError(
            f"{path}: completed_rounds: the run is not finished, it has {done} of "
            f"{results.rounds} rounds: continue it with {resume_command(path.parent)}"
        )


def check_percentages(columns: Mapping[str, Sequence[Any]], path: Path, fix: str = "") -> None:
    """Raise DataError if a main metric has a value outside of 0 to 100."""
    for name, column in columns.items():
        wrong = [value for value in column if is_number(value) and not 0 <= value <= 100]
        if Metric.parse(name).metric in MAIN_METRICS and wrong:
            raise DataError(f"{path}: {name}: is {wrong[0]}, must be from 0 to 100{fix}")
