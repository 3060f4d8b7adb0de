"""Whether a run's figures are what its checkpoint and its history give."""

import copy
import json
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
from fedseg.runs.results import (
    config_digest,
    curves,
    hardware,
    package_versions,
    window_statistics,
)
from fedseg.runs.schema import FILE_NAME, Results, read_results

TOLERANCE = 0.05
"""Percentage points by which a figure may differ on another machine.

On the machine of the run there is none: figures must be the same bits.
"""
GLOBAL = "global:"  # how figures of the model that is not averaged begin
RELATIVE = 1e-9  # of sums over the history, which are made of printed numbers


@dataclass(frozen=True)
class Difference:
    """A field that is not what it should be.

    Attributes:
        field: such as ``final.unseen.mIoU``. recorded: what results.json has.
        computed: what came out. source: of what.
    """

    field: str
    recorded: Any
    computed: Any
    source: str

    def __str__(self) -> str:
        if self.computed is None:
            return f"{self.field}: results.json has {self.recorded!r}, the {self.source} has none"
        text = (
            f"{self.field}: results.json has {self.recorded!r}, the {self.source} gives "
            f"{self.computed!r}"
        )
        if _are_numbers(self.recorded, self.computed):
            text += f" (difference {self.computed - self.recorded:+.3g})"
        return text


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes:
        folder: of the run. checkpoint: that was evaluated.
        compared: how many numbers. differences: of them, beyond the tolerance.
        tolerance: in percentage points; 0: the same bits. elsewhere: why it is not 0, in words.
    """

    folder: Path
    checkpoint: Path
    compared: int
    differences: tuple[Difference, ...]
    tolerance: float
    elsewhere: str

    @property
    def passed(self) -> bool:
        """Whether everything is as recorded."""
        return not self.differences


def verify(
    folder: str | Path,
    config: str | Path | None = None,
    options: Sequence[str] = (),
    progress: bool = True,
) -> Verification:
    """Recompute a run's figures.

    The last figures (``final``) come from the newest checkpoint, evaluated as in training; the
    means over the last rounds, the curves and the traffic from ``history.jsonl``.

    Args:
        folder: the run's work dir.
        config: the config file; default: the copy in the work dir, which works where the config
            imports no modules from beside it.
        options: ``KEY=VALUE`` overrides, such as ``data_root=...``.
        progress: show the images evaluated so far.

    Raises:
        DataError: ``results.json``, checkpoint, history or config is missing or damaged.
        ConfigError: the config cannot be evaluated; it names the config's file.
    """
    folder = Path(folder)
    results = read_results(folder / FILE_NAME)
    checkpoint = _newest_checkpoint(folder, results)
    history = History(folder / "history.jsonl").read()
    if not history:
        raise DataError(f"{folder / 'history.jsonl'}: is missing or damaged: nothing to verify by")
    before = torch.get_num_threads()
    torch.set_num_threads(results.threads)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            loaded = _config(folder, results, config, options, Path(scratch))
            with naming(loaded):
                digest = config_digest(complete_config(loaded))
                final, elsewhere = _evaluate(loaded, checkpoint, results, Path(scratch), progress)
    finally:
        torch.set_num_threads(before)
    tolerance = TOLERANCE if elsewhere else 0.0
    compared, found = 0, []
    if not options:  # another data_root is another config
        compared += 1
        if digest != results.config_sha256:
            found.append(Difference("config_sha256", results.config_sha256, digest, "config"))
    expected = {"final": results.final}
    for field, recorded, computed in _pairs(expected, {"final": final}):
        compared += 1
        if not _equal(recorded, computed, tolerance):
            found.append(Difference(field, recorded, computed, "checkpoint"))
    recorded, computed = _of_history(results, history)
    for field, one, other in _pairs(recorded, computed):
        compared += 1
        if not _equal(one, other, RELATIVE * abs(one) if _are_numbers(one, other) else 0):
            found.append(Difference(field, one, other, "history"))
    return Verification(folder, checkpoint, compared, tuple(found), tolerance, elsewhere)


def _newest_checkpoint(folder: Path, results: Results) -> Path:
    found = checkpoints(folder / "checkpoints")
    if not found:
        raise DataError(f"{folder / 'checkpoints'}: holds no checkpoint to verify by")
    round_, path = found[-1]
    if round_ != results.completed_rounds:
        raise DataError(
            f"{path}: is of round {round_}, but {folder / FILE_NAME} is of round "
            f"{results.completed_rounds}: they are of different runs"
        )
    meta = load_checkpoint(path).get("meta") or {}
    for field, value in (("seed", results.seed), ("config_sha256", results.config_sha256)):
        if meta.get(field, value) != value:
            raise DataError(
                f"{path}: has {field} {meta[field]!r}, but {folder / FILE_NAME} has {value!r}: "
                "they are of different runs"
            )
    return path


def _config(
    folder: Path,
    results: Results,
    given: str | Path | None,
    options: Sequence[str],
    scratch: Path,
) -> Config:
    """The run's config; what is evaluated is what training evaluated."""
    path = Path(given) if given is not None else folder / f"{results.name}.py"
    if not path.is_file():
        raise DataError(f"{path}: the run's config is not there: name it with --config")
    try:
        loaded = load_config(
            path, work_dir=scratch, options=options, seed=results.seed, amp=results.amp
        )
    except ConfigError as error:
        if given is not None:
            raise
        raise ConfigError(
            f"{error}. Name the config that the run was started with: --config"
        ) from error
    return loaded


def _evaluate(
    config: Config, checkpoint: Path, results: Results, scratch: Path, progress: bool
) -> tuple[dict[str, Any], str]:
    """(figures by domain as in ``final``, what is unlike the machine of the run)."""
    config = copy.deepcopy(config)
    for name in ("dataloader", "evaluator"):
        config[f"test_{name}"] = config.get(f"val_{name}")
    runner, tested = evaluate_checkpoint(config, checkpoint, progress)
    final = dict(tested["domains"])
    if any(domain.startswith(GLOBAL) for domain in results.final):
        payload = load_checkpoint(checkpoint)
        payload.pop("averaged_state_dict", None)
        plain_model = scratch / checkpoint.name
        save_checkpoint(plain_model, payload)
        _, others = evaluate_checkpoint(config, plain_model, progress)
        final |= {f"{GLOBAL}{domain}": entry for domain, entry in others["domains"].items()}
    now = {
        "packages": package_versions(),
        "device": str(runner.flat.w.device),
        "hardware": hardware(runner.flat.w.device),
    }
    then = {
        "packages": results.versions,
        "device": results.device,
        "hardware": results.hardware,
    }
    return final, ", ".join(f"other {name}" for name in now if now[name] != then[name])


def _of_history(
    results: Results, history: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What results.json has and what the history gives, of the same fields."""
    window = results.last_rounds
    recorded = {
        "last_rounds": asdict(window),
        "communication": asdict(results.communication),
        "completed_rounds": results.completed_rounds,
    }
    computed = {
        "last_rounds": window_statistics(history, results.rounds, window.rounds),
        "communication": {
            name: sum(record[name] for record in history) for name in ("bytes_down", "bytes_up")
        },
        "completed_rounds": history[-1]["round"],
    }
    if results.curves is not None:
        recorded["curves"] = json.loads(json.dumps(asdict(results.curves)))
        computed["curves"] = plain(curves(history))
    return recorded, computed


def _pairs(recorded: Any, computed: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(field, recorded, computed) of everything that is recorded; None where nothing came out."""
    if isinstance(recorded, Mapping):
        for key, value in recorded.items():
            other = computed.get(key) if isinstance(computed, Mapping) else None
            yield from _pairs(value, other, f"{field}.{key}" if field else key)
    elif isinstance(recorded, list | tuple):
        same = isinstance(computed, list | tuple) and len(computed) == len(recorded)
        for number, value in enumerate(recorded):
            yield from _pairs(value, computed[number] if same else None, f"{field}[{number}]")
    else:
        yield field, recorded, computed


def _equal(recorded: Any, computed: Any, tolerance: float) -> bool:
    if _are_numbers(recorded, computed):
        return abs(recorded - computed) <= tolerance
    return recorded == computed


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
