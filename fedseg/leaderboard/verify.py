"""Recompute a run's ``results.json`` from its config, checkpoint, history and images."""

import copy
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.checks import is_number, walk
from fedseg.config.check import complete_config
from fedseg.config.layers import naming
from fedseg.errors import DataError, UserError
from fedseg.files import digest, own_path, read_json, sha256, write_text
from fedseg.leaderboard.verify_history import check_rounds, privacy_accountant
from fedseg.memory import threads
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
from fedseg.runs.run_files import TOLERANCE, VERIFIED
from fedseg.runs.schema import (
    FILE_NAME,
    OWN_DIGEST,
    DataFacts,
    ResultsFile,
    own_digest,
    read_results_file,
)
from fedseg.trust import Trust, import_trusted, modules_named

NESTED = (Mapping, list, tuple)
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


@dataclass
class Verification:
    """The outcome of :func:`verify`."""

    folder: Path  # work dir of the run
    checkpoint: Path  # the evaluated one
    runner: FederatedRunner  # which has evaluated it
    saved: Mapping[str, Any]  # content of the checkpoint
    elsewhere: str  # how the machine differs from that of the run; empty if it does not
    results_sha256: str | None = None  # the checksum that the results have of themselves
    compared: int = 0  # number of values
    differences: list[Difference] = field(default_factory=list)  # those beyond the tolerance
    unchecked: tuple[str, ...] = ()  # fields that only the training images tell, if not there

    @property
    def tolerance(self) -> float:
        """In percentage points; 0: equal to the last bit."""
        return TOLERANCE if self.elsewhere else 0.0

    @property
    def passed(self) -> bool:
        """True if everything is as recorded."""
        return not self.differences

    def write(self) -> None:
        """Leave ``verified.json`` in the run's folder if it passed, and none if it did not.

        A link there is replaced. OSError where that cannot be, as in a folder that is only read.
        """
        path = self.folder / VERIFIED
        path.unlink(missing_ok=True)
        if self.passed and self.results_sha256 is not None:
            content = {"results_sha256": self.results_sha256, "tolerance": self.tolerance}
            content |= {"checkpoint": self.checkpoint.name, "unchecked": self.unchecked}
            content["checkpoint_sha256"] = sha256(self.checkpoint)
            write_text(path, json.dumps(content, indent=1) + "\n")

    def compare(self, recorded: Any, computed: Any, place: str, *source: str) -> None:
        """Compare two nested values; ``source``: of the second, and the file of the first."""
        allowed = {"checkpoint": (self.tolerance, 0), "history": (0, RELATIVE)}
        absolute, relative = allowed.get(source[0], (0, 0))
        there, here = (
            {name: one for name, one in walk(value, place) if not (one and isinstance(one, NESTED))}
            for value in (recorded, computed)
        )
        for name in dict.fromkeys((*there, *here)):
            old, new = there.get(name), here.get(name)
            self.compared += 1
            equal = old == new
            if is_number(old) and is_number(new):
                equal = abs(old - new) <= max(absolute, relative * abs(old))
            if not equal:
                self.differences.append(Difference(name, old, new, *source))


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
    participants, evaluations and traffic that the config asks for.

    The run may come from anyone: nothing of it is executed or imported, but what the user trusts,
    and of that only registered classes are built; see :mod:`fedseg.runner.recorded`.

    Args:
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
    with threads(results.threads), tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if config is None:
            reading = recorded(folder, scratch, options, trust)
        else:
            used = load_config(config, (), scratch, options, results.seed, _used_amp(folder))
            with naming(used):
                reading = nullcontext((used, complete_config(used)))
        with reading as (used, complete), naming(used):
            outcome = _evaluate(folder, used, checkpoint, results, scratch)
            # what the run says of itself is compared with its config as it stands
            stated = read_recorded(folder) if config is None and options else complete
            if config is None:
                computed = {"config_json_sha256": sha256(folder / CONFIG_FILE)}
                if "experiment_name" in stated:  # of a config of the user's own it is that file's
                    computed["name"] = str(stated.experiment_name)
                outcome.compare(results.model_dump(include=set(computed)), computed, "", "config")
            if config is None or not options:  # which are on purpose
                _compare_config(outcome, results, stated)
            trusted = None
            if config is None:
                trusted = import_trusted(trust, modules_named(complete), folder)
            _compare_data(outcome, results, stated, complete, trusted)
            _compare_history(outcome, results, history, stated)
    if results.results_sha256 is not None:
        checksum = own_digest(read_json(own_path(folder, FILE_NAME)))
        outcome.compare(results.results_sha256, checksum, OWN_DIGEST, "rest of the file")
    return outcome


def _used_amp(folder: Path) -> bool:
    try:
        return bool(read_recorded(folder).train_cfg.get("amp", False))
    except UserError:
        return False


def _compare_config(outcome: Verification, results: ResultsFile, config: Config) -> None:
    computed = {
        "config_sha256": config_digest(config),
        "experiment_sha256": experiment_digest(config),
        "seed": config.randomness.seed,
    }
    outcome.compare(results.model_dump(include=set(computed)), plain(computed), "", "config")


def _compare_history(
    outcome: Verification,
    results: ResultsFile,
    history: Sequence[Mapping[str, Any]],
    config: Config,
) -> None:
    computed = plain(summarize(history))
    del computed["seconds"]
    if results.history_sha256 is not None:
        computed["history_sha256"] = digest(timeless(history))
    recorded = results.model_dump(include=set(computed))
    accuracy = results.extras.get("client_accuracy")  # of ClientAccuracyHook
    sizes = outcome.saved["client_sizes"]
    if accuracy is not None:
        lines = [record for record in history if record.get("client_accuracy")]
        series = {"clients": list(sizes), "rounds": [record["round"] for record in lines]}
        series["accuracy"] = [record["client_accuracy"] for record in lines]
        accuracy = accuracy if isinstance(accuracy, dict) else {}
        computed["client_accuracy"] = series
        recorded["client_accuracy"] = {name: accuracy.get(name) for name in series}
    outcome.compare(recorded, computed, "", "history")
    rounds = check_rounds(history, config, outcome.runner.cfg, outcome.runner, sizes)
    outcome.compare(*rounds, "", "config", HISTORY)
    accountant = privacy_accountant(outcome.runner.cfg, sizes)
    if accountant is not None:
        computed = plain(accountant.results(len(history)))
        outcome.compare(results.extras.get("privacy"), computed, "privacy", "config")
    mark = outcome.saved.get("history")
    if mark is not None:
        path = own_path(outcome.folder, HISTORY)
        written = {"bytes": path.stat().st_size, "sha256": sha256(path)}
        outcome.compare(mark, written, "history", HISTORY, outcome.checkpoint.name)


def _compare_data(
    outcome: Verification,
    results: ResultsFile,
    stated: Config,
    complete: Config,
    trusted: Collection[str] | None,
) -> None:
    recorded = {name: entry.model_dump() for name, entry in results.data.items()}
    train = recorded.get("train", {})
    for source, facts in _train_facts(outcome, complete, stated.train_dataloader, trusted).items():
        for name, value in facts.items():
            outcome.compare(train.pop(name, None), value, f"data.train.{name}", source)
    outcome.unchecked = tuple(name for name in train if name in DataFacts.model_fields)
    for test in outcome.runner.test_loop.sets:
        name, facts = f"test:{test.name}", test_facts(test)
        entry = {key: recorded.get(name, {}).get(key) for key in facts}
        outcome.compare(entry, facts, f"data.{name}", "data set")
    tests = {n: one for n, one in (stated.get("val_dataloader") or {}).items() if one is not None}
    there = {name.removeprefix("test:") for name in recorded if name != "train"}
    wanted = {name for name, one in tests.items() if name in there or not one.get("optional")}
    for name in sorted(there | wanted):
        outcome.compare(name in there, name in wanted, f"data.test:{name}", "config")


def _train_facts(
    outcome: Verification,
    config: Config,
    loader: Mapping[str, Any],
    trusted: Collection[str] | None,
) -> dict[str, dict[str, Any]]:
    """The facts of ``data.train`` by source: all of them only of images that are there.

    ``loader``: the training data as the run has described them; ``trusted`` is None if the config
    is the user's own.
    """
    try:
        if trusted is not None:
            work_dir = outcome.runner.work_dir
            config = evaluated(config, work_dir, trusted, ("train_dataloader",))
        data = build_client_data(config, outcome.runner.flat, warn=lambda text: None)
        return {"data set": train_facts(data)}
    except UserError:  # its images are not there, or a class of it is not the suite's
        dataset = loader["dataset"]
        kind = dataset.get("type") if isinstance(dataset, Mapping) else type(dataset)
        kind = DATASETS.module_dict.get(kind, kind) if isinstance(kind, str) else kind
        meta = outcome.saved.get("meta") or {}
        known = {"clients": len(outcome.saved["client_sizes"])}
        if "train_data" in meta:
            known["partition_sha256"] = meta["train_data"]
        return {"config": {"dataset": getattr(kind, "__name__", kind)}, "checkpoint": known}


def _newest_checkpoint(folder: Path, results: ResultsFile) -> Path:
    round_, path = newest_checkpoint(folder)
    meta = {**(load_checkpoint(path).get("meta") or {}), "completed_rounds": round_}
    for name in ("completed_rounds", "seed", "config_sha256"):
        recorded = getattr(results, name)
        saved = meta.get(name, recorded)
        if type(saved) is not type(recorded) or saved != recorded:
            raise DataError(
                f"{path}: {name}: is {saved!r}, but {recorded!r} in {folder / FILE_NAME}; "
                "they are from different runs"
            )
    return path


def _evaluate(
    folder: Path, config: Config, checkpoint: Path, results: ResultsFile, scratch: Path
) -> Verification:
    """Repeat the last evaluation, and compare it with the recorded one."""
    saved = load_checkpoint(checkpoint)
    if not saved.get("client_sizes"):
        raise DataError(f"{checkpoint}: client_sizes: is missing, it has no clients")
    config = copy.deepcopy(config)
    for name in ("dataloader", "evaluator"):  # evaluate what training evaluated
        config[f"test_{name}"] = config.get(f"val_{name}")
    runner, tested = evaluate_checkpoint(config, checkpoint)
    final = dict(tested["domains"])
    if any(Metric.of(domain).is_global for domain in results.final):
        not_averaged = {k: v for k, v in saved.items() if k != "averaged_state_dict"}
        save_checkpoint(scratch / checkpoint.name, not_averaged)
        _, others = evaluate_checkpoint(config, scratch / checkpoint.name)
        final |= {global_name(domain): entry for domain, entry in others["domains"].items()}
    for entry in final.values():
        entry.pop("images", None)  # which the test adds
    machine = _elsewhere(runner, results)
    outcome = Verification(folder, checkpoint, runner, saved, machine, results.results_sha256)
    outcome.compare(results.final, final, "final", "checkpoint")
    figures, metrics = results.curves.figures, flatten(final)
    last = nest({name: column[-1] for name, column in figures.items() if column})
    computed = nest({name: metrics.get(name) for name, column in figures.items() if column})
    outcome.compare(last, computed, "final", "checkpoint", HISTORY)
    parameters = runner.flat.num_parameters
    outcome.compare(results.parameters, parameters, "parameters", "checkpoint")
    state = saved.get("run")
    initial = state.get("initial_sha256") if isinstance(state, Mapping) else None
    outcome.compare(results.initial_sha256, initial, "initial_sha256", "checkpoint")
    return outcome


def _elsewhere(runner: FederatedRunner, results: ResultsFile) -> str:
    """Differences of this machine from that of the run, in words."""
    now = environment(runner.flat.w.device)
    here = {"packages": package_versions(), "device": now["device"], "hardware": now["hardware"]}
    there = results.versions, results.device, results.hardware
    pairs = zip(here.items(), there, strict=True)
    machine = [f"other {name}" for (name, value), other in pairs if value != other]
    # the results may have been written again elsewhere
    environments = [one for one in results.environments or () if is_number(one.get("round"))]
    last = [one for one in environments if one["round"] <= results.completed_rounds][-1:]
    if last and not machine and any(last[0].get(key, value) != value for key, value in now.items()):
        machine = ["other environment of the last rounds"]
    return ", ".join(machine)
