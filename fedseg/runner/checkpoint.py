"""Checkpoints: written atomically, checked when read, and the hook that says when and which.

A checkpoint is written to a temporary file, synced and renamed. Its SHA-256 is beside it, in a file
that ``sha256sum -c`` reads.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Ge, MinLen
from pydantic import BaseModel, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor

from fedseg.checks import is_number
from fedseg.config.arguments import STRICT, read_model
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.files import atomic_writer, own_path, sha256, write_text
from fedseg.memory import find_weights_fault, map_tensors
from fedseg.metric_names import Metric
from fedseg.registry import HOOKS
from fedseg.runner.state_store import save_tensors
from fedseg.runs.history import HistoryMark

CHECKPOINTS = "checkpoints"  # the folder in a work dir
PATTERN = re.compile(r"round_(\d{6,})\.pth")
SUM_SUFFIX = ".sha256"
WEIGHTS = ("state_dict", "averaged_state_dict", "client_statistics")


class StateRow(BaseModel):
    """Where a store of states has the newest tensors of a key."""

    model_config = STRICT

    round: int
    sha256: str


class Facts(BaseModel):
    """The plain values of a checkpoint that are read without the run: it may be a stranger's."""

    model_config = STRICT

    round: int = 0
    history: HistoryMark | None = None  # the history up to this round
    client_sizes: Mapping[str, PositiveInt] = {}
    domain_clients: Mapping[str, Sequence[str]] = {}
    held_out: Mapping[str, Annotated[list[NonNegativeInt], MinLen(1)]] = {}
    meta: Mapping[str, Any] = {}
    stores: Mapping[str, Mapping[str, StateRow]] = {}
    state_dict: Mapping[str, Any]
    averaged_state_dict: Mapping[str, Any] = {}
    client_statistics: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _check_domains(self) -> "Facts":
        for domain, clients in self.domain_clients.items():
            if not self.client_sizes.keys() >= set(clients):
                raise ValueError(f"domain_clients: {domain}: must be some of client_sizes")
        return self


# ---------------------------------------------------------------- paths


def checkpoint_path(folder: Path, round_: int) -> Path:
    """The path of the checkpoint of a round."""
    return folder / f"round_{round_:06d}.pth"


def sum_path(checkpoint: Path) -> Path:
    """The path of the file with a checkpoint's SHA-256."""
    return checkpoint.with_name(f"{checkpoint.name}{SUM_SUFFIX}")


def run_folder(checkpoint: Path) -> Path:
    """The work dir that a checkpoint belongs to."""
    folder = checkpoint.parent
    return folder.parent if folder.name == CHECKPOINTS else folder


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """List (round, path) of every checkpoint in a folder, oldest first."""
    if not folder.is_dir():
        return []
    numbered = []
    for path in folder.iterdir():
        match = PATTERN.fullmatch(path.name)
        if match:
            numbered.append((int(match[1]), path))
    return sorted(numbered)


# ---------------------------------------------------------------- writing


def save_checkpoint(path: Path, payload: Mapping[str, Any]) -> None:
    """Write a checkpoint, then its SHA-256; a kill at any moment leaves the old one or the new one.

    A kill between the two leaves a checkpoint without a sum, which is read unchecked.

    Raises:
        ConfigError: a hook or algorithm keeps what :func:`load_checkpoint` refuses.
    """
    sum_path(path).unlink(missing_ok=True)  # of an earlier checkpoint of this round
    digest = save_tensors(path, payload)
    foreign = _foreign_content(path)
    if foreign is not None:
        path.unlink()
        raise ConfigError(
            f"checkpoint: has {foreign}, which no checkpoint can bring back: let hooks and "
            "algorithms keep plain Python values and dense, real tensors"
        )
    _write_sum(path, digest)


def _foreign_content(path: Path) -> str | None:
    """What of a checkpoint :func:`load_checkpoint` would refuse, or None; looks at no numbers."""
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    if names:
        return ", ".join(names)
    try:
        _read(path, mmap=True)
    except ValueError as error:
        return str(error)
    return None


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint and its SHA-256 under another name."""
    sum_path(target).unlink(missing_ok=True)
    with open(source, "rb") as content, atomic_writer(target, "wb") as copy:
        shutil.copyfileobj(content, copy)
    _write_sum(target, sha256(target))


def delete_checkpoint(path: Path) -> None:
    """Delete a checkpoint and its SHA-256."""
    path.unlink(missing_ok=True)
    sum_path(path).unlink(missing_ok=True)


def _write_sum(path: Path, digest: str) -> None:
    write_text(sum_path(path), f"{digest}  {path.name}\n", sync=True)


# ---------------------------------------------------------------- reading


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, with ``weights_only=True``.

    Raises:
        DataError: missing, truncated, another file than its ``.sha256`` says, with weights that are
            not finite, or holding anything but tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint")
    _check_sum(path)
    try:
        payload = _read(path)
    except Exception as error:
        # a pickle that asks for absurd objects raises MemoryError, torch's allocator RuntimeError
        if lacks_memory(error) and not isinstance(error, MemoryError):
            raise
        raise DataError(
            f"{path}: cannot be read as a checkpoint of tensors and plain values "
            f"({type(error).__name__}): it is truncated, damaged, or something else"
        ) from (None if isinstance(error, MemoryError) else error)
    if not isinstance(payload, dict) or "state_dict" not in payload:
        raise DataError(f"{path}: is not a fedseg checkpoint, it has no 'state_dict'")
    fields = {key: value for key, value in payload.items() if key in Facts.model_fields}
    read_model(Facts, fields, path)
    named = PATTERN.fullmatch(path.name)
    if named and payload.get("round") != int(named[1]):
        raise DataError(f"{path}: is of round {payload.get('round')}: give it back its name")
    for key in WEIGHTS:
        check_weights(payload.get(key, {}), f"{path}: {key}")
    return payload


def _read(path: Path, mmap: bool = False) -> Any:
    """The content of a file of tensors and plain values; ValueError for tensors of other kinds."""
    payload = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    map_tensors(partial(_check_stored, path.stat().st_size), payload)
    return payload


def _check_sum(path: Path) -> None:
    """Raise DataError unless a checkpoint is what the file beside it says, if there is one."""
    recorded = own_path(path.parent, sum_path(path).name)
    if not recorded.is_file():
        return
    if recorded.read_bytes().decode(errors="replace").partition(" ")[0] != sha256(path):
        raise DataError(f"{path}: is damaged, its SHA-256 is not that in {recorded.name}")


def _check_stored(size: int, tensor: Tensor) -> None:
    """Raise ValueError for a tensor that could be larger than any memory, in a file of a size."""
    if tensor.is_quantized or tensor.is_complex() or tensor.layout != torch.strided:
        raise ValueError(f"a tensor of {tensor.dtype}, {tensor.layout}")
    if tensor.numel() * tensor.element_size() > size:
        raise ValueError(f"a tensor of {tuple(tensor.shape)} in a file of {size} bytes")


def check_weights(weights: Mapping[str, Any], where: str) -> None:
    """Raise DataError unless all are tensors, by names, with numbers that training can give."""
    for name, value in weights.items():
        if isinstance(value, Mapping):
            check_weights(value, f"{where}: {name}")
        elif getattr(value, "layout", None) != torch.strided or not isinstance(name, str):
            raise DataError(f"{where}: {name}: is a {type(value).__name__}, no tensor")
        elif fault := find_weights_fault(value):
            raise DataError(f"{where}: {name}: {fault}; use an earlier checkpoint")


def newest_advice(path: Path) -> str:
    """Say how to continue a run from the newest whole checkpoint before one that is of no use."""
    round_ = int(PATTERN.fullmatch(path.name)[1])
    for number, older in reversed(checkpoints(path.parent)):
        if number >= round_:
            continue
        try:
            load_checkpoint(older)
        except DataError:
            continue
        return f"delete {path.name} to continue from {older.name}, the newest whole checkpoint"
    return "no older checkpoint is whole: train again in another --work-dir, without --resume"


# ---------------------------------------------------------------- when and which


@HOOKS.register_module()
class FederatedCheckpointHook(FederatedHook):
    """Writes ``checkpoints/round_000010.pth`` in the work dir and deletes what is not needed.

    Args:
        interval: rounds between checkpoints; the last round always has one.
        keep_last: newest checkpoints to keep, at least 2: should one be damaged, there is another.
        keep_every: keep every k-th round's for good (1: all of them; 0: none). The clients' states
            are kept for the newest ones only, so that these are for looking at, not for resuming.
        save_best: name of a figure, for example ``"unseen/mIoU"``; the checkpoint of the round with
            the highest is copied to ``best_unseen_mIoU.pth``.
    """

    priority = "VERY_LOW"

    def __init__(
        self,
        interval: PositiveInt = 10,
        keep_last: Annotated[int, Ge(2)] = 2,
        keep_every: NonNegativeInt = 0,
        save_best: str | None = None,
    ) -> None:
        self.interval = interval
        self.keep_last = keep_last
        self.keep_every = keep_every
        self.save_best = save_best
        self.best: float | None = None
        self.best_round: int | None = None
        self._metrics: dict[str, float] = {}

    def before_train(self, runner: Any) -> None:
        if self.save_best is None:
            return
        domain, tests = Metric.parse(self.save_best).set, runner.val_loop
        sets = [test.name for test in tests.sets] if tests is not None else []
        if domain not in sets:
            raise ConfigError(
                f"default_hooks.checkpoint.save_best: {self.save_best!r} is of no test set: name "
                f"DOMAIN/METRIC of {', '.join(sets) or 'a val_dataloader'}"
            )
        # a kill may have come between the checkpoint and its copy
        path = checkpoint_path(runner.checkpoint_folder, runner.round)
        if self.best_round == runner.round and path.is_file():
            self._copy_best(path)

    def after_val_epoch(self, runner: Any, metrics: dict[str, float]) -> None:
        self._metrics = metrics if runner.round else {}  # the initial model has no checkpoint
        if self.save_best is not None and self.save_best not in metrics:
            raise ConfigError(
                f"default_hooks.checkpoint.save_best: {self.save_best!r} is not among the figures: "
                f"{', '.join(sorted(metrics))}"
            )

    def after_train_epoch(self, runner: Any) -> None:
        round_ = runner.round
        improved = self._improved(runner)
        due = round_ % self.interval == 0 or round_ == runner.max_rounds
        if due or improved or self._keeps(round_):
            path = self._save(runner)
            if improved:
                self._copy_best(path)
        self._metrics = {}

    def on_interrupt(self, runner: Any) -> None:
        """Save the last finished round, if it is not on disk yet."""
        if runner.save_finished():
            self._clean(runner)

    def _keeps(self, round_: int) -> bool:
        """True if the checkpoint of a round stays for good."""
        return bool(self.keep_every) and round_ % self.keep_every == 0

    def _save(self, runner: Any) -> Path:
        path = runner.save(runner.train_loop.finished_rounds)
        self._clean(runner)
        return path

    def _improved(self, runner: Any) -> bool:
        if self.save_best is None or self.save_best not in self._metrics:
            return False
        value = self._metrics[self.save_best]
        if not is_number(value) or (self.best is not None and value <= self.best):
            return False
        self.best, self.best_round = value, runner.round
        return True

    def _copy_best(self, path: Path) -> None:
        name = self.save_best.replace("/", "_").replace(":", "_")
        copy_checkpoint(path, path.with_name(f"best_{name}.pth"))

    def _clean(self, runner: Any) -> None:
        saved = checkpoints(runner.checkpoint_folder)
        newest = saved[-self.keep_last :]
        for round_, path in saved:
            if (round_, path) not in newest and not self._keeps(round_):
                delete_checkpoint(path)
        for store in runner.stores.values():
            store.delete_before(newest[0][0])

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_round": self.best_round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_round = state["best"], state.get("best_round")
