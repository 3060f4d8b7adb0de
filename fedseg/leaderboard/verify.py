"""Recompute a run's ``results.json`` from its config, checkpoint, history and images."""

import copy
import math
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.checks import is_number, walk
from fedseg.config.check import complete_config
from fedseg.config.layers import errors_name_their_source
from fedseg.errors import DataError, UserError
from fedseg.files import digest, own_path, read_json, sha256
from fedseg.leaderboard.verify_history import check_rounds, privacy_accountant
from fedseg.memory import restoring_threads
from fedseg.metric_names import Metric, flatten, global_name, nest
from fedseg.registry import DATASETS
from fedseg.runner.build import build_client_data
from fedseg.runner.checkpoint import load_checkpoint, save_checkpoint
from fedseg.runner.experiment import load_config
from fedseg.runner.recorded import evaluated, newest_checkpoint, read_recorded, recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runner.testing import evaluate_checkpoint
from fedseg.runs.config import CONFIG_FILE, config_digest, experiment_digest
from fedseg.runs.history import HISTORY, plain, read_history, summarize, timeless
from fedseg.runs.results import environment, package_versions, test_facts, train_facts
from fedseg.runs.schema import (
    FILE_NAME,
    OWN_DIGEST,
    DataFacts,
    ResultsFile,
    own_digest,
    read_results_file,
)
from fedseg.trust import Trust, import_trusted, modules_named

TOLERANCE = 0.05  # percentage points by which a metric may differ on another machine
RELATIVE = 1e-9  # of sums over the history, which is made of printed numbers


@dataclass(frozen=True)
class Difference:
    """A field that is not what it should be."""

    field: str  # such as "final.unseen.mIoU"
    recorded: Any
    computed: Any
    source: str  # what it was computed from
    file: str = FILE_NAME  # which has the recorded value

    def __str__(self) -> str:
        text = f"{self.field}: {self.file} has {self.recorded!r}, the {self.source} "
        if self.computed is None:
            return f"{text}has none"
        text += f"gives {self.computed!r}"
        if is_number(self.recorded) and is_number(self.computed):
            text += f" (difference {self.computed - self.recorded:+.3g})"
        return text


@dataclass(frozen=True)
class Part:
    """Values that a file of the run has, and the same values computed again."""

    recorded: Any  # nested dicts and lists, or one value; as is computed
    computed: Any
    field: str  # of both, such as "final"; empty: the file as a whole
    source: str  # what the second is computed from
    file: str = FILE_NAME  # which has the first
    absolute: float = 0.0  # by which numbers may differ; 0: not at all
    relative: float = 0.0

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Pair the values by their field: (recorded, computed); None where one has none."""
        recorded = flat_values(self.recorded, self.field)
        computed = flat_values(self.computed, self.field)
        names = {**recorded, **computed}
        return {name: (recorded.get(name), computed.get(name)) for name in names}

    def differences(self) -> Iterator[Difference]:
        """Find the fields whose values differ by more than the tolerance."""
        for name, (old, new) in self.fields().items():
            equal = old == new
            if is_number(old) and is_number(new):
                equal = math.isclose(old, new, rel_tol=self.relative, abs_tol=self.absolute)
            if not equal:
                yield Difference(name, old, new, self.source, self.file)


def flat_values(value: Any, field: str) -> dict[str, Any]:
    """Flatten a nested value: ``{"final.seen.IoU[0]": 91.2}``; what is empty stays a value."""
    values = {}
    for name, part in walk(value, field):
        if not part or not isinstance(part, Mapping | list | tuple):
            values[name] = part
    return values


@dataclass(frozen=True)
class Verification:
    """The outcome of :func:`verify`."""

    folder: Path  # work dir of the run
    checkpoint: Path  # the evaluated one
    elsewhere: str  # how the machine differs from that of the run; empty if it does not
    compared: int  # number of values
    differences: list[Difference]  # those beyond the tolerance
    unchecked: tuple[str, ...]  # fields that only the training images tell, if not there

    @property
    def tolerance(self) -> float:
        """In percentage points; 0: equal to the last bit."""
        return TOLERANCE if self.elsewhere else 0.0

    @property
    def passed(self) -> bool:
        """True if everything is as recorded."""
        return not self.differences


@dataclass(frozen=True)
class _Run:
    """A run that is verified."""

    folder: Path
    results: ResultsFile
    history: Sequence[Mapping[str, Any]]
    checkpoint: Path
    saved: Mapping[str, Any]  # content of the checkpoint
    stated: Config  # the config as the run recorded it
    complete: Config  # with the user's options, for reading images and clients
    own_config: bool  # whether the config is the user's, not the recorded one
    trusted: Collection[str]  # modules that the user trusts


def verify(
    folder: str | Path,
    config: str | Path | None = None,
    options: Sequence[str] = (),
    trust: Trust = (),
) -> Verification:
    """Recompute what ``results.json`` in the work dir of a run holds.

    The last evaluation is repeated with the newest checkpoint. What the config decides is taken
    from it again, and what ``data`` says from the images, where those for training are there;
    curves, traffic and counts are recomputed from ``history.jsonl``, which must have the rounds,
    participants and evaluations that the config asks for.

    The run may come from anyone: nothing of it is executed or imported, but what the user trusts,
    and of that only registered classes are built; see :mod:`fedseg.runner.recorded`.

    Args:
        folder: work dir of the run.
        config: a config file of the user's own, which is a program; default: what the run recorded.
        options: ``KEY=VALUE`` overrides for reading images and clients and for evaluating the
            checkpoint; what the run says of its config is compared with that without them.
        trust: see :func:`fedseg.trust.import_trusted`.
    """
    folder = Path(folder)
    results = read_results_file(own_path(folder, FILE_NAME))
    checkpoint = _newest_checkpoint(folder, results)
    history = read_history(own_path(folder, HISTORY), finished=True)
    if not history:
        raise DataError(f"{folder / HISTORY}: is missing or damaged, verify needs it")
    with restoring_threads(results.threads), tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        reading = _read_config(folder, config, options, trust, scratch, results)
        with reading as (used, complete), errors_name_their_source(used):
            # what the run says of itself is compared with its config as it stands
            stated = read_recorded(folder) if config is None and options else complete
            trusted: Collection[str] = ()
            if config is None:
                trusted = import_trusted(trust, modules_named(complete), folder)
            run = _Run(
                folder=folder,
                results=results,
                history=history,
                checkpoint=checkpoint,
                saved=load_checkpoint(checkpoint),
                stated=stated,
                complete=complete,
                own_config=config is not None,
                trusted=trusted,
            )
            runner, final = _evaluate(run, used, scratch)
            elsewhere = _elsewhere(runner, results)
            tolerance = TOLERANCE if elsewhere else 0.0
            train, unchecked = _train_parts(run, runner)
            parts = [
                *_final_parts(run, runner, final, tolerance),
                *_config_parts(run, compared=config is None or not options),
                *train,
                *_test_parts(run, runner),
                *_history_parts(run, runner),
            ]
    if results.results_sha256 is not None:
        checksum = own_digest(read_json(own_path(folder, FILE_NAME)))
        parts.append(Part(results.results_sha256, checksum, OWN_DIGEST, "rest of the file"))
    return Verification(
        folder=folder,
        checkpoint=checkpoint,
        elsewhere=elsewhere,
        compared=sum(len(part.fields()) for part in parts),
        differences=[difference for part in parts for difference in part.differences()],
        unchecked=unchecked,
    )


def _read_config(
    folder: Path,
    config: str | Path | None,
    options: Sequence[str],
    trust: Trust,
    scratch: Path,
    results: ResultsFile,
) -> AbstractContextManager[tuple[Config, Config]]:
    """Read the config for the evaluation, and the same for the clients' data."""
    if config is None:
        return recorded(folder, scratch, options, trust)
    used = load_config(config, (), scratch, options, results.seed, _used_amp(folder))
    with errors_name_their_source(used):
        return nullcontext((used, complete_config(used)))


def _used_amp(folder: Path) -> bool:
    try:
        return bool(read_recorded(folder).train_cfg.get("amp", False))
    except UserError:
        return False


def _newest_checkpoint(folder: Path, results: ResultsFile) -> Path:
    """Find the newest checkpoint; DataError if it is of another run than the results."""
    round_, path = newest_checkpoint(folder)
    meta = {**(load_checkpoint(path).get("meta") or {}), "completed_rounds": round_}
    for name in ("completed_rounds", "seed", "config_sha256"):
        expected = getattr(results, name)
        saved = meta.get(name, expected)
        if type(saved) is not type(expected) or saved != expected:
            raise DataError(
                f"{path}: {name}: is {saved!r}, but {expected!r} in {folder / FILE_NAME}; "
                "they are from different runs"
            )
    return path


# ---------------------------------------------------------------- checkpoint


def _evaluate(run: _Run, config: Config, scratch: Path) -> tuple[FederatedRunner, dict[str, Any]]:
    """Repeat the last evaluation; returns its runner and ``{domain: {metric: value}}``."""
    if not run.saved.get("client_sizes"):
        raise DataError(f"{run.checkpoint}: client_sizes: is missing, it has no clients")
    config = copy.deepcopy(config)
    config["test_dataloader"] = config.get("val_dataloader")  # evaluate what training evaluated
    config["test_evaluator"] = config.get("val_evaluator")
    runner, tested = evaluate_checkpoint(config, run.checkpoint)
    final = dict(tested["domains"])
    if any(Metric.of(domain).is_global for domain in run.results.final):
        not_averaged = {k: v for k, v in run.saved.items() if k != "averaged_state_dict"}
        save_checkpoint(scratch / run.checkpoint.name, not_averaged)
        _, of_global = evaluate_checkpoint(config, scratch / run.checkpoint.name)
        for domain, entry in of_global["domains"].items():
            final[global_name(domain)] = entry
    for entry in final.values():
        entry.pop("images", None)  # which the test adds
    return runner, final


def _final_parts(
    run: _Run, runner: FederatedRunner, final: Mapping[str, Any], tolerance: float
) -> Iterator[Part]:
    """Compare the last evaluation, in the results and in the history, and the weights' facts."""
    results, source = run.results, "checkpoint"
    yield Part(results.final, final, "final", source, absolute=tolerance)
    metrics = flatten(final)
    columns = {name: column for name, column in results.curves.figures.items() if column}
    last = nest({name: column[-1] for name, column in columns.items()})
    computed = nest({name: metrics.get(name) for name in columns})
    yield Part(last, computed, "final", source, HISTORY, absolute=tolerance)
    yield Part(results.parameters, runner.flat.num_parameters, "parameters", source)
    state = run.saved.get("run")
    initial = state.get("initial_sha256") if isinstance(state, Mapping) else None
    yield Part(results.initial_sha256, initial, "initial_sha256", source)


def _elsewhere(runner: FederatedRunner, results: ResultsFile) -> str:
    """Name the differences of this machine from that of the run."""
    now = environment(runner.flat.w.device)
    pairs = {
        "packages": (package_versions(), results.versions),
        "device": (now["device"], results.device),
        "hardware": (now["hardware"], results.hardware),
    }
    names = [f"other {name}" for name, (here, there) in pairs.items() if here != there]
    if names:
        return ", ".join(names)
    # the results may have been written again elsewhere
    rounds = results.completed_rounds
    known = [entry for entry in results.environments or () if is_number(entry.get("round"))]
    last = [entry for entry in known if entry["round"] <= rounds][-1:]
    if last and any(last[0].get(key, value) != value for key, value in now.items()):
        return "other environment of the last rounds"
    return ""


# ---------------------------------------------------------------- config


def _config_parts(run: _Run, compared: bool) -> Iterator[Part]:
    """Compare what the results say of the config.

    Args:
        run: the run.
        compared: whether its checksums are; not if the user changes it on purpose.
    """
    computed: dict[str, Any] = {}
    if not run.own_config:
        computed["config_json_sha256"] = sha256(run.folder / CONFIG_FILE)
        if "experiment_name" in run.stated:  # of a config of the user's own it is that file's
            computed["name"] = str(run.stated.experiment_name)
    if compared:
        computed["config_sha256"] = config_digest(run.stated)
        computed["experiment_sha256"] = experiment_digest(run.stated)
        computed["seed"] = run.stated.randomness.seed
    stated = {name: getattr(run.results, name) for name in computed}
    yield Part(stated, plain(computed), "", "config")


# ---------------------------------------------------------------- data


def _train_parts(run: _Run, runner: FederatedRunner) -> tuple[list[Part], tuple[str, ...]]:
    """Compare the facts of the training images; returns also the names of unchecked ones."""
    entry = run.results.data.get("train")
    recorded_facts = {} if entry is None else entry.model_dump()
    parts = []
    for source, facts in _train_facts(run, runner).items():
        for name, value in facts.items():
            part = Part(recorded_facts.pop(name, None), value, f"data.train.{name}", source)
            parts.append(part)
    return parts, tuple(name for name in recorded_facts if name in DataFacts.model_fields)


def _train_facts(run: _Run, runner: FederatedRunner) -> dict[str, dict[str, Any]]:
    """The facts of ``data.train`` by source: all of them only of images that are there."""
    config = run.complete
    try:
        if not run.own_config:
            config = evaluated(config, runner.work_dir, run.trusted, ("train_dataloader",))
        data = build_client_data(config, runner.flat, warn=lambda text: None)
        return {"data set": train_facts(data)}
    except UserError:  # its images are not there, or a class of it is not the suite's
        dataset = run.stated.train_dataloader["dataset"]
        kind = dataset.get("type") if isinstance(dataset, Mapping) else type(dataset)
        kind = DATASETS.module_dict.get(kind, kind) if isinstance(kind, str) else kind
        meta = run.saved.get("meta") or {}
        known = {"clients": len(run.saved["client_sizes"])}
        if "train_data" in meta:
            known["partition_sha256"] = meta["train_data"]
        return {"config": {"dataset": getattr(kind, "__name__", kind)}, "checkpoint": known}


def _test_parts(run: _Run, runner: FederatedRunner) -> Iterator[Part]:
    """Compare the facts of the test images, and which test sets there are."""
    data = run.results.data
    for test in runner.test_loop.sets:
        name = f"test:{test.name}"
        images = test_facts(test)
        entry = data[name].model_dump() if name in data else {}
        recorded = {key: entry.get(key) for key in images}
        yield Part(recorded, images, f"data.{name}", "data set")
    loaders = run.stated.get("val_dataloader") or {}
    tests = {name: loader for name, loader in loaders.items() if loader is not None}
    has = {name.removeprefix("test:") for name in data if name != "train"}
    wanted = {name for name, loader in tests.items() if name in has or not loader.get("optional")}
    for name in sorted(has | wanted):
        yield Part(name in has, name in wanted, f"data.test:{name}", "config")


# ---------------------------------------------------------------- history


def _history_parts(run: _Run, runner: FederatedRunner) -> Iterator[Part]:
    """Compare the results with the history, and the history with the config."""
    results, sizes = run.results, run.saved["client_sizes"]
    computed = plain(summarize(run.history))
    del computed["seconds"]
    if results.history_sha256 is not None:
        computed["history_sha256"] = digest(timeless(run.history))
    dumped = results.model_dump(include=set(computed))
    yield Part(dumped, computed, "", "history", relative=RELATIVE)
    accuracy = results.extras.get("client_accuracy")
    if isinstance(accuracy, dict):
        yield Part(accuracy.get("clients"), list(sizes), "client_accuracy.clients", "checkpoint")
    rounds, expected = check_rounds(run.history, run.stated, runner.cfg, sizes)
    yield Part(rounds, expected, "", "config", HISTORY)
    accountant = privacy_accountant(runner.cfg, sizes)
    if accountant is not None:
        budget = plain(accountant.results(len(run.history)))
        yield Part(results.extras.get("privacy"), budget, "privacy", "config")
    mark = run.saved.get("history")
    if mark is not None:
        path = own_path(run.folder, HISTORY)
        written = {"bytes": path.stat().st_size, "sha256": sha256(path)}
        yield Part(mark, written, "history", HISTORY, run.checkpoint.name)
