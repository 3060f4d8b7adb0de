"""Whether the metrics of a run are those of its checkpoint and its history."""

import copy
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.checks import is_number
from fedseg.cli import printable
from fedseg.config.layers import naming
from fedseg.errors import DataError, UserError
from fedseg.files import read_json, sha256
from fedseg.leaderboard.verify_history import compared_rounds, expected_rounds, train_loop
from fedseg.metric_names import Metric, global_name
from fedseg.runner.build import build_client_data
from fedseg.runner.checkpoint import load_checkpoint, save_checkpoint
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config
from fedseg.runner.recorded import evaluated, newest_checkpoint, read_recorded, recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runner.testing import evaluate_checkpoint
from fedseg.runs.config_copy import CONFIG_FILE
from fedseg.runs.from_json import own_path
from fedseg.runs.history import History, plain
from fedseg.runs.results import (
    by_domain,
    configured,
    configured_train_entry,
    dataset_entry,
    environment,
    hardware,
    package_versions,
    summarized,
    train_entry,
)
from fedseg.runs.run_files import HISTORY, read_history
from fedseg.runs.schema import (
    FILE_NAME,
    MOST_THREADS,
    OWN_DIGEST,
    Results,
    check_bounds,
    own_digest,
    read_results,
)
from fedseg.threads import threads

# Percentage points by which a metric may differ on another machine; on that of the run none.
TOLERANCE = 0.05
RELATIVE = 1e-9  # of sums over the history, which is made of printed numbers


@dataclass(frozen=True)
class Difference:
    """A field that is not what it should be."""

    field: str  # such as "final.unseen.mIoU"
    recorded: Any  # in the file
    computed: Any
    source: str  # what it was computed from
    file: str = FILE_NAME

    def __str__(self) -> str:
        text = f"{self.field}: {self.file} has {self.recorded!r}, the {self.source} "
        if self.computed is None:
            return f"{text}has none"
        text += f"gives {self.computed!r}"
        if is_number(self.recorded) and is_number(self.computed):
            text += f" (difference {self.computed - self.recorded:+.3g})"
        return text


@dataclass(frozen=True)
class Verification:
    """The outcome of :func:`verify`."""

    folder: Path  # work dir of the run
    checkpoint: Path  # the evaluated one
    compared: int  # number of values
    differences: tuple[Difference, ...]  # those beyond the tolerance
    tolerance: float  # in percentage points; 0: equal to the last bit
    elsewhere: str  # how the machine differs from that of the run; empty if it does not
    unchecked: tuple[str, ...] = ()  # fields that only the training images tell, if not there

    @property
    def passed(self) -> bool:
        """Whether everything is as recorded."""
        return not self.differences


def verify(
    folder: str | Path,
    config: str | Path | None = None,
    options: Sequence[str] = (),
    trusted: Sequence[str] = (),
) -> Verification:
    """Recompute the metrics of a run.

    The last evaluation (``final``) is repeated with the newest checkpoint. What the config decides
    is taken from it again, and what ``data`` says from the images, where those for training are
    there; means over the last rounds, curves and traffic are recomputed from ``history.jsonl``,
    which must have the rounds, participants, evaluations and traffic that the config asks for.

    The run may come from anyone: nothing of it is executed or imported; see
    :mod:`fedseg.runner.recorded`.

    Args:
        folder: work dir of the run.
        config: a config file of the user's own, which is a program; default: what the run recorded.
        options: ``KEY=VALUE`` overrides, such as ``data_root=...``, for reading images and clients
            and for evaluating the checkpoint; what the run says of its config is compared with the
            recorded config without them.
        trusted: modules of the user's own whose registered classes a recorded config may name.

    Raises:
        DataError: ``results.json``, checkpoint, history or config is missing or damaged.
        ConfigError: the config cannot be evaluated.
    """
    folder = Path(folder)
    results = read_results(own_path(folder, FILE_NAME), bounded=False)  # differences are named
    if not 1 <= results.threads <= MOST_THREADS:
        raise DataError(
            f"{folder / FILE_NAME}: threads: is {results.threads}, must be from 1 to {MOST_THREADS}"
        )
    check_bounds(results, folder / FILE_NAME, "seconds.")  # which nothing is compared with
    checkpoint = _newest_checkpoint(folder, results)
    history = read_history(own_path(folder, HISTORY), finished=True)
    if not history:
        raise DataError(f"{folder / HISTORY}: is missing or damaged, verify needs it")
    with threads(results.threads), tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if config is None:
            reading = recorded(folder, scratch, options, trusted)
        else:
            used = load_config(config, (), scratch, options, results.seed, results.amp)
            with naming(used):
                reading = nullcontext((used, complete_config(used)))
        with reading as (used, complete), naming(used):
            # what the run says of itself is compared with its config as it stands
            stated = read_recorded(folder) if config is None and options else complete
            runner, final, elsewhere = _evaluate(used, checkpoint, results, scratch)
            saved = load_checkpoint(checkpoint)
            if not saved.get("client_sizes"):
                raise DataError(f"{checkpoint}: client_sizes: is missing, it has no clients")
            rounds = expected_rounds(runner.cfg, runner, saved["client_sizes"], len(history))
            configuration, loop = plain(configured(stated)), train_loop(stated)
            allowed = trusted if config is None else None
            entries = _train_entries(complete, stated.train_dataloader, runner, saved, allowed)
            loaders = [one.get("val_dataloader") or {} for one in (stated, complete)]
            for test in runner.test_loop.sets:
                loader = next(one[test.name] for one in loaders if one.get(test.name) is not None)
                entry = dataset_entry(test.dataset, loader)
                entries.append((f"test:{test.name}", "data set", entry))
    fields = asdict(results)
    summary = {
        **plain(summarized(history, loop.max_rounds, loop.val_last_rounds)),
        "completed_rounds": history[-1]["round"],
    }
    configuration["model"]["parameters"] = runner.flat.num_parameters
    says = configuration
    if config is None:
        says = {"config_json_sha256": sha256(folder / CONFIG_FILE), **says}
        if "experiment_name" in stated:  # of a config of the user's own it is that file's
            says["name"] = printable(str(stated.experiment_name))
    elif options:  # the user's own file, and what it is evaluated with, such as a data_root
        says = {"protocol": says["protocol"]}
    compared: list[Difference] = []

    def add(pairs: Iterable[tuple[str, Any, Any]], *source: str) -> None:
        compared.extend(Difference(*pair, *source) for pair in pairs)

    sources = {"config": says, "checkpoint": {"final": final}, "history": summary}
    for source, found in sources.items():
        for name, computed in found.items():
            if name in fields:
                add(_pairs(fields[name], computed, name), source)
    metrics = by_domain(plain(history[-1].get("metrics", {})), {})
    add(_pairs(metrics, final, "final", whole=False), "checkpoint", HISTORY)
    unchecked = dict(fields["data"]["train"])
    for name, source, entry in plain(entries):
        own = fields["data"].get(name, {})
        for key in entry if name == "train" else own:
            add(_pairs(own[key], entry.get(key), f"data.{name}.{key}"), source)
        unchecked = {k: v for k, v in unchecked.items() if name != "train" or k not in entry}
    tests = stated.get("val_dataloader") or {}
    tests = {n: test for n, test in tests.items() if test is not None}
    names = {n for n, test in tests.items() if n in results.tests or not test.get("optional")}
    every = sorted(names | results.tests.keys())
    add(((f"data.test:{n}", n in results.tests, n in names) for n in every), "config")
    accuracy = results.extras.get("client_accuracy")  # of ClientAccuracyHook
    if accuracy is not None:
        lines = [record for record in history if record.get("client_accuracy")]
        computed = {
            "clients": list(saved["client_sizes"]),
            "rounds": [record["round"] for record in lines],
            "accuracy": [record["client_accuracy"] for record in lines],
        }
        accuracy = accuracy if isinstance(accuracy, Mapping) else {}
        for name, values in computed.items():
            add(_pairs(accuracy.get(name), values, f"client_accuracy.{name}"), HISTORY)
    add(compared_rounds(history, rounds, stated), "config", HISTORY)
    known = saved.get("history")  # checksums of its lines
    if known is not None:
        line = History(own_path(folder, HISTORY)).changed(known)
        add([("first changed line", line, None)], "checkpoint", HISTORY)
    if results.results_sha256 is not None:
        digest = own_digest(read_json(own_path(folder, FILE_NAME), strict=False))
        add([(OWN_DIGEST, results.results_sha256, digest)], "rest of the file")
    tolerance = TOLERANCE if elsewhere else 0.0
    differences = tuple(one for one in compared if not _equal(one, tolerance))
    values = folder, checkpoint, len(compared), differences, tolerance, elsewhere
    return Verification(*values, tuple(unchecked))


def _newest_checkpoint(folder: Path, results: Results) -> Path:
    round_, path = newest_checkpoint(folder)
    meta = {**(load_checkpoint(path).get("meta") or {}), "completed_rounds": round_}
    for field in ("completed_rounds", "seed", "config_sha256"):
        recorded = getattr(results, field)
        found = meta.get(field, recorded)
        if type(found) is not type(recorded) or found != recorded:
            raise DataError(
                f"{path}: {field}: is {found!r}, but {recorded!r} in {folder / FILE_NAME}; "
                "they are from different runs"
            )
    return path


def _evaluate(
    config: Config, checkpoint: Path, results: Results, scratch: Path
) -> tuple[FederatedRunner, dict[str, Any], str]:
    """(runner, metrics by domain as in ``final``, how this machine differs from the run's)."""
    config = copy.deepcopy(config)
    for name in ("dataloader", "evaluator"):  # evaluate what training evaluated
        config[f"test_{name}"] = config.get(f"val_{name}")
    runner, tested = evaluate_checkpoint(config, checkpoint)
    final = dict(tested["domains"])
    if any(Metric.of(domain).is_global for domain in results.final):
        payload = load_checkpoint(checkpoint)
        payload.pop("averaged_state_dict", None)
        not_averaged = scratch / checkpoint.name
        save_checkpoint(not_averaged, payload)
        _, others = evaluate_checkpoint(config, not_averaged)
        final |= {global_name(domain): entry for domain, entry in others["domains"].items()}
    for entry in final.values():
        entry.pop("images", None)  # which the test adds
    device = runner.flat.w.device
    pairs = {
        "packages": (package_versions(), results.versions),
        "device": (str(device), results.device),
        "hardware": (hardware(device), results.hardware),
    }
    now = environment(device)
    machine = [f"other {name}" for name, (now, then) in pairs.items() if now != then]
    for last in _last_environment(results):  # the results may have been written again elsewhere
        if not machine and any(last.get(key, value) != value for key, value in now.items()):
            machine = ["other environment of the last rounds"]
    return runner, final, ", ".join(machine)


def _last_environment(results: Results) -> list[Mapping[str, Any]]:
    """What computed the last rounds, if that is recorded; it may come from anyone."""
    known = [one for one in results.environments or () if is_number(one.get("round"))]
    return [one for one in known if one["round"] <= results.completed_rounds][-1:]


def _train_entries(
    config: Config,
    loader: Mapping[str, Any],
    runner: FederatedRunner,
    saved: Mapping[str, Any],
    trusted: Collection[str] | None,
) -> list[tuple[str, str, dict[str, Any]]]:
    """What is known of ``data.train``, with where from: all of it only of images that are there.

    ``loader``: the training data as the run has described them; ``trusted``: as of
    :func:`fedseg.runner.recorded.recorded`; None: the config is the user's own.
    """
    built = config
    try:
        if trusted is not None:
            built = evaluated(config, runner.work_dir, trusted, ("train_dataloader",))
        data = build_client_data(built, runner.flat, warn=lambda text: None)
        return [("train", "data set", train_entry(data, loader))]
    except UserError:  # its images are not there, or a class of it is not the suite's
        sizes, identity = saved.get("client_sizes"), (saved.get("meta") or {}).get("identity")
        known = {"clients": len(sizes)} if sizes else {}
        if isinstance(identity, Mapping):
            known["partition_sha256"] = identity.get("train data")
        return [("train", "config", configured_train_entry(loader)), ("train", "checkpoint", known)]


def _pairs(
    recorded: Any, computed: Any, field: str, whole: bool = True
) -> Iterator[tuple[str, Any, Any]]:
    """(field, recorded, computed) of everything; None where nothing is recorded or came out.

    ``whole``: also of what came out and is not recorded.
    """
    if isinstance(recorded, Mapping) or (
        whole and recorded is None and isinstance(computed, Mapping)
    ):
        recorded = recorded or {}
        others = computed if isinstance(computed, Mapping) else {}
        for key in dict.fromkeys((*recorded, *others)) if whole else recorded:
            yield from _pairs(recorded.get(key), others.get(key), f"{field}.{key}", whole)
    elif isinstance(recorded, list | tuple):
        same = isinstance(computed, list | tuple) and len(computed) == len(recorded)
        if not recorded and not same:
            yield field, recorded, computed
        for index, value in enumerate(recorded):
            other = computed[index] if same else None
            yield from _pairs(value, other, f"{field}[{index}]", whole)
    else:
        yield field, recorded, computed


def _equal(one: Difference, tolerance: float) -> bool:
    if not is_number(one.recorded) or not is_number(one.computed):
        return one.recorded == one.computed
    allowed = {"checkpoint": tolerance, "history": RELATIVE * abs(one.recorded)}
    return abs(one.recorded - one.computed) <= allowed.get(one.source, 0)
