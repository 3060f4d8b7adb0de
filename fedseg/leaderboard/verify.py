"""Whether the metrics of a run are those of its checkpoint and its history."""

import copy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from fedseg.errors import ConfigError, DataError
from fedseg.runner.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config, naming
from fedseg.runner.testing import evaluate_checkpoint
from fedseg.runs.history import History, plain
from fedseg.runs.metric_names import GLOBAL, is_number
from fedseg.runs.protocol import protocol_of
from fedseg.runs.results import config_digest, curves, hardware, package_versions, window_statistics
from fedseg.runs.schema import FILE_NAME, Results, read_results

TOLERANCE = 0.05
"""Percentage points by which a metric may differ on another machine.

On the machine of the run, metrics must be equal to the last bit.
"""
RELATIVE = 1e-9  # of sums over the history, which is made of printed numbers


@dataclass(frozen=True)
class Difference:
    """A field that is not what it should be."""

    field: str  # such as "final.unseen.mIoU"
    recorded: Any  # in results.json
    computed: Any
    source: str  # what it was computed from

    def __str__(self) -> str:
        text = f"{self.field}: results.json has {self.recorded!r}, the {self.source} "
        if self.computed is None:
            return f"{text}has none"
        text += f"gives {self.computed!r}"
        if is_number(self.recorded) and is_number(self.computed):
            text += f" (difference {self.computed - self.recorded:+.3g})"
        return text


@dataclass(frozen=True)
class Verification:
    """The outcome of a verification."""

    folder: Path  # work dir of the run
    checkpoint: Path  # the evaluated one
    compared: int  # number of values
    differences: tuple[Difference, ...]  # those beyond the tolerance
    tolerance: float  # in percentage points; 0: equal to the last bit
    elsewhere: str  # how the machine differs from that of the run; empty if it does not

    @property
    def passed(self) -> bool:
        """Whether everything is as recorded."""
        return not self.differences


def verify(
    folder: str | Path, config: str | Path | None = None, options: Sequence[str] = ()
) -> Verification:
    """Recompute the metrics of a run.

    The last evaluation (``final``) is repeated with the newest checkpoint; the means over the last
    rounds, the curves and the traffic are recomputed from ``history.jsonl``.

    Args:
        folder: work dir of the run.
        config: the config file; default: the copy in the work dir, which works unless the config
            imports modules from beside it.
        options: ``KEY=VALUE`` overrides, such as ``data_root=...``.

    Raises:
        DataError: ``results.json``, checkpoint, history or config is missing or damaged.
        ConfigError: the config cannot be evaluated.
    """
    folder = Path(folder)
    results = read_results(folder / FILE_NAME)
    checkpoint = _newest_checkpoint(folder, results)
    history = History(folder / "history.jsonl").read()
    if not history:
        raise DataError(f"{folder / 'history.jsonl'}: is missing or damaged, verify needs it")
    before = torch.get_num_threads()
    torch.set_num_threads(results.threads)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            loaded = _config(folder, results, config, options, Path(scratch))
            with naming(loaded):
                complete = complete_config(loaded)
                final, elsewhere = _evaluate(loaded, checkpoint, results, Path(scratch))
    finally:
        torch.set_num_threads(before)
    tolerance = TOLERANCE if elsewhere else 0.0
    pairs = _pairs(results.protocol or {}, protocol_of(complete), "protocol")
    compared = [Difference(*pair, "config") for pair in pairs]
    if not options:  # another data_root is another config
        digest = config_digest(complete)
        compared.append(Difference("config_sha256", results.config_sha256, digest, "config"))
    compared += [Difference(*pair, "checkpoint") for pair in _pairs(results.final, final, "final")]
    compared += [Difference(*pair, "history") for pair in _pairs(*_of_history(results, history))]
    found = tuple(one for one in compared if not _equal(one, tolerance))
    return Verification(folder, checkpoint, len(compared), found, tolerance, elsewhere)


def _newest_checkpoint(folder: Path, results: Results) -> Path:
    found = checkpoints(folder / "checkpoints")
    if not found:
        raise DataError(f"{folder / 'checkpoints'}: holds no checkpoint, verify needs the newest")
    round_, path = found[-1]
    meta = {**(load_checkpoint(path).get("meta") or {}), "completed_rounds": round_}
    for field in ("completed_rounds", "seed", "config_sha256"):
        recorded = getattr(results, field)
        if meta.get(field, recorded) != recorded:
            raise DataError(
                f"{path}: {field}: is {meta[field]!r}, but {recorded!r} in {folder / FILE_NAME}; "
                "they are from different runs"
            )
    return path


def _config(
    folder: Path, results: Results, given: str | Path | None, options: Sequence[str], scratch: Path
) -> Config:
    """The run's config."""
    path = Path(given) if given is not None else folder / f"{results.name}.py"
    if not path.is_file():
        raise DataError(f"{path}: no such config; name the run's config with --config")
    try:
        return load_config(
            path, work_dir=scratch, options=options, seed=results.seed, amp=results.amp
        )
    except ConfigError as error:
        if given is not None:
            raise
        raise ConfigError(f"{error}; name the original config of the run with --config") from error


def _evaluate(
    config: Config, checkpoint: Path, results: Results, scratch: Path
) -> tuple[dict[str, Any], str]:
    """(metrics by domain as in ``final``, how this machine differs from that of the run)."""
    config = copy.deepcopy(config)
    for name in ("dataloader", "evaluator"):  # evaluate what training evaluated
        config[f"test_{name}"] = config.get(f"val_{name}")
    runner, tested = evaluate_checkpoint(config, checkpoint)
    final = dict(tested["domains"])
    if any(domain.startswith(GLOBAL) for domain in results.final):
        payload = load_checkpoint(checkpoint)
        payload.pop("averaged_state_dict", None)
        not_averaged = scratch / checkpoint.name
        save_checkpoint(not_averaged, payload)
        _, others = evaluate_checkpoint(config, not_averaged)
        final |= {f"{GLOBAL}{domain}": entry for domain, entry in others["domains"].items()}
    device = runner.flat.w.device
    pairs = {
        "packages": (package_versions(), results.versions),
        "device": (str(device), results.device),
        "hardware": (hardware(device), results.hardware),
    }
    return final, ", ".join(f"other {name}" for name, (now, then) in pairs.items() if now != then)


def _of_history(
    results: Results, history: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same fields as results.json has them and as the history gives them."""
    traffic = {k: sum(record[k] for record in history) for k in asdict(results.communication)}
    computed = {
        "last_rounds": window_statistics(history, results.rounds, results.last_rounds.rounds),
        "communication": traffic,
        "completed_rounds": history[-1]["round"],
        "curves": plain(curves(history)),
    }
    recorded = {name: value for name, value in asdict(results).items() if name in computed}
    return {name: value for name, value in recorded.items() if value is not None}, computed


def _pairs(recorded: Any, computed: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(field, recorded, computed) of everything that is recorded; None where nothing came out."""
    if isinstance(recorded, Mapping):
        for key, value in recorded.items():
            other = computed.get(key) if isinstance(computed, Mapping) else None
            yield from _pairs(value, other, f"{field}.{key}" if field else key)
    elif isinstance(recorded, list | tuple):
        same = isinstance(computed, list | tuple) and len(computed) == len(recorded)
        for index, value in enumerate(recorded):
            yield from _pairs(value, computed[index] if same else None, f"{field}[{index}]")
    else:
        yield field, recorded, computed


def _equal(one: Difference, tolerance: float) -> bool:
    if not is_number(one.recorded) or not is_number(one.computed):
        return one.recorded == one.computed
    if one.source == "history":
        tolerance = RELATIVE * abs(one.recorded)
    return abs(one.recorded - one.computed) <= tolerance
