"""Checkpoints: written atomically, checked when read, and the hook that says when and which.

A checkpoint is written to a temporary file, synced and renamed. It holds a SHA-256 of its content,
so that a copy of it, of whatever name, can be checked too. Finding the newest one skips any that is
damaged or whose client states or history are not all there.
"""

import hashlib
import re
import shutil
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

import torch
from annotated_types import Ge, MinLen
from pydantic import BaseModel, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor

from fedseg.checks import is_number
from fedseg.config.schema import STRICT, read_model
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.files import atomic_writer, own_path, sha256
from fedseg.memory import find_fault, map_tensors
from fedseg.metric_names import Metric
from fedseg.registry import HOOKS
from fedseg.runner.state_store import save_tensors

PATTERN = re.compile(r"round_(\d{6,})\.pth")
DIGEST = "content_sha256"
STATE_DICTS = ("state_dict", "averaged_state_dict")
WEIGHTS = (*STATE_DICTS, "client_statistics")
READABLE = (str, int, float, bool, bytes, complex, NoneType, torch.dtype, torch.device, torch.Size)
_SHARED: dict[Path, str] = {}  # sums of the files of frozen weights that this process wrote or read


class Facts(BaseModel):
    """The plain values of a checkpoint that are read without the run: it may be a stranger's."""

    model_config = STRICT

    round: int = 0
    history: Sequence[int] = ()  # checksums of its lines
    client_sizes: Mapping[str, PositiveInt] = {}
    domain_clients: Mapping[str, Sequence[str]] = {}
    held_out: Mapping[str, Annotated[list[NonNegativeInt], MinLen(1)]] = {}
    meta: Mapping[str, Any] = {}
    stores: Mapping[str, Any] = {}
    state_dict: Mapping[str, Any]
    averaged_state_dict: Mapping[str, Any] = {}
    client_statistics: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _check_domains(self) -> "Facts":
        for domain, clients in self.domain_clients.items():
            if not self.client_sizes.keys() >= set(clients):
                raise ValueError(f"domain_clients: {domain}: must be some of client_sizes")
        return self


def checkpoint_path(folder: Path, round_: int) -> Path:
    """The path of the checkpoint of a round."""
    return folder / f"round_{round_:06d}.pth"


def run_folder(checkpoint: Path) -> Path:
    """The work dir that a checkpoint belongs to."""
    folder = checkpoint.parent
    return folder.parent if folder.name == "checkpoints" else folder


def _content_digest(payload: Mapping[str, Any]) -> str:
    """SHA-256 of names, values and tensors, which does not depend on how a file lays them out."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            digest.update(repr((value.dtype, tuple(value.shape))).encode())
            flat = value.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy())
        elif isinstance(value, Mapping):
            digest.update(b"{")
            for key, one in value.items():
                digest.update(repr(key).encode())
                add(one)
            digest.update(b"}")
        elif isinstance(value, list | tuple):
            digest.update(b"[")
            for one in value:
                add(one)
            digest.update(b"]")
        elif isinstance(value, set | frozenset):
            digest.update(repr(sorted(map(repr, value))).encode())
        else:
            digest.update(f"{value!r},".encode())

    add({key: value for key, value in payload.items() if key != DIGEST})
    return digest.hexdigest()


def _check_readable(value: Any, where: str) -> None:
    """Raise ConfigError for what :func:`load_checkpoint` would not take, of a hook's, say."""
    if isinstance(value, Mapping | list | tuple | set):
        for key, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            _check_readable(key, where)
            _check_readable(one, f"{where}: {key}")
    elif isinstance(value, Tensor):
        if value.is_complex() or value.layout != torch.strided:
            _check_readable(value.layout, f"{where}: {value.dtype}")
    elif type(value) not in READABLE:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise ConfigError(
            f"{where}: is of {kind}, which no checkpoint can bring back: let hooks and algorithms "
            "keep plain Python values and dense, real tensors"
        )


def _with_storage(tensor: Tensor) -> Tensor:
    """An expanded tensor as one that has its values, see :func:`check_stored`."""
    expanded = tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
    return tensor.contiguous() if expanded else tensor


def save_checkpoint(path: Path, payload: Mapping[str, Any], frozen: Collection[str] = ()) -> None:
    """Write a checkpoint atomically: a kill at any moment leaves the old one or the new one.

    ``frozen``: names of weights that no round changes; a file beside the checkpoints has them.
    """
    _check_readable(payload, "checkpoint")
    payload = map_tensors(_with_storage, payload)
    weights = payload["state_dict"] if frozen else {}
    shared = {name: tensor for name, tensor in weights.items() if name in frozen}
    if shared:
        digest = _content_digest(shared)
        file = path.with_name(f"frozen_{digest[:16]}.pth")
        for key in set(STATE_DICTS) & payload.keys():
            payload[key] = {n: t for n, t in payload[key].items() if n not in shared}
        checksum = _share(file, shared, digest)
        payload["frozen"] = {"file": file.name, "sha256": checksum, "names": [*weights]}
    save_tensors(path, {**payload, DIGEST: _content_digest(payload)})


def _share(file: Path, weights: Mapping[str, Tensor], digest: str) -> str:
    """Write the weights that checkpoints share unless the file has them. Returns its SHA-256.

    A file that changed since this process met it is written again, to the bytes that it had: the
    checkpoints before name their sum.
    """
    checksum = sha256(file) if file.is_file() and not file.is_symlink() else None
    if checksum is None or checksum != _SHARED.get(file):
        sound = checksum is not None and file not in _SHARED and _has(file, digest)
        _SHARED[file] = checksum if sound else save_tensors(file, weights)
    return _SHARED[file]


def _has(file: Path, digest: str) -> bool:
    try:
        return _content_digest(read_frozen_part(file)) == digest
    except Exception:
        return False


def with_frozen_part(content: Any, checkpoint: Path) -> Any:
    """A checkpoint's content with the frozen weights, which all checkpoints of a run share.

    Raises:
        DataError: their file is not beside the checkpoint, or damaged.
    """
    frozen = content.get("frozen") if isinstance(content, dict) else None
    if not isinstance(frozen, dict) or not frozen.keys() >= {"file", "sha256", "names"}:
        return content  # a file from elsewhere may have something of that name
    path = own_path(checkpoint.parent, Path(str(frozen["file"])).name)
    if not path.is_file():
        raise DataError(f"{checkpoint}: its frozen weights are in {path.name}: copy both files")
    if sha256(path) != frozen["sha256"]:
        raise DataError(f"{path}: is damaged, its checksum does not match")
    whole = {key: value for key, value in content.items() if key != "frozen"}
    try:
        shared = read_frozen_part(path)
        for key in STATE_DICTS:
            if key in content:
                weights = content[key] | shared
                whole[key] = {name: weights[name] for name in frozen["names"]}
    except Exception as error:
        if lacks_memory(error):
            raise
        raise DataError(
            f"{path}: is damaged, it is not the frozen part of {checkpoint.name} ({error!r})"
        ) from error
    return whole


def read_frozen_part(path: Path) -> dict[str, Tensor]:
    """The weights in a file of a run's frozen weights; any error if it has something else."""
    shared = torch.load(path, map_location="cpu", weights_only=True)
    size = path.stat().st_size
    if sum(check_stored(size, tensor).nbytes for tensor in shared.values()) > size:
        raise ValueError("it is smaller than its header says")
    return shared


def check_stored(size: int, tensor: Tensor) -> Tensor:
    """A plain tensor; one without storage for each value may be larger than any memory."""
    if tensor.is_quantized or tensor.is_complex() or tensor.layout != torch.strided:
        raise ValueError(f"a tensor of {tensor.dtype}, {tensor.layout}")
    if tensor.numel() * tensor.element_size() > size:
        raise ValueError(f"a tensor of {tuple(tensor.shape)} in a file of {size} bytes")
    return tensor


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, with ``weights_only=True``.

    Raises:
        DataError: missing, truncated, damaged, with weights that are not finite, or holding
            anything but tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint")
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True)
        map_tensors(partial(check_stored, path.stat().st_size), payload)
        digest = _content_digest(payload) if isinstance(payload, dict) else None
        recorded = payload.get(DIGEST, digest) if isinstance(payload, dict) else None
        payload = with_frozen_part(payload, path)
    except DataError:
        raise
    except Exception as error:
        # or an older one would be taken; a pickle that asks for absurd objects raises MemoryError,
        # torch's allocator RuntimeError
        if lacks_memory(error) and not isinstance(error, MemoryError):
            raise
        raise DataError(
            f"{path}: cannot be read as a checkpoint of tensors and plain values "
            f"({type(error).__name__}): it is truncated, damaged, or something else"
        ) from (None if isinstance(error, MemoryError) else error)
    if not isinstance(payload, dict) or "state_dict" not in payload:
        raise DataError(f"{path}: is not a fedseg checkpoint, it has no 'state_dict'")
    if recorded != digest:
        raise DataError(f"{path}: is damaged or was changed, its checksum does not match")
    read_model(Facts, {k: v for k, v in payload.items() if k in Facts.model_fields}, path)
    named = PATTERN.fullmatch(path.name)
    if named and payload.get("round") != int(named[1]):
        raise DataError(f"{path}: is of round {payload.get('round')}: give it back its name")
    for key in WEIGHTS:
        check_weights(payload.get(key, {}), f"{path}: {key}")
    return payload


def check_like(value: Any, expected: Any, where: str) -> None:
    """Raise DataError unless a value has the types, names and shapes of another.

    Args:
        found: of a checkpoint; a dict may have more names.
        expected: its like; None stands for anything, an empty dict or list for any.
    """
    kinds = (Tensor, Mapping, list, Real)
    kind = next((kind for kind in kinds if isinstance(expected, kind)), object)
    if not isinstance(value, kind):
        raise DataError(f"{where}: has the wrong type, {type(value).__name__}")
    if kind is Mapping:
        for key, like in expected.items():
            if key not in value:
                raise DataError(f"{where}: {key}: is missing")
            check_like(value[key], like, f"{where}: {key}")
    elif kind is Tensor:
        sides = [f"{tuple(one.shape)} of {one.dtype}" for one in (value, expected)]
        if sides[0] != sides[1]:
            raise DataError(f"{where}: is {sides[0]}, expected {sides[1]}")
    elif kind is list and expected:
        if len(value) != len(expected):
            raise DataError(f"{where}: has {len(value)} entries, expected {len(expected)}")
        for number, (one, like) in enumerate(zip(value, expected, strict=True)):
            check_like(one, like, f"{where}[{number}]")


def check_weights(weights: Mapping[str, Any], where: str) -> None:
    """Raise DataError unless all are tensors, by names, with numbers that training can give."""
    for name, value in weights.items():
        if isinstance(value, Mapping):
            check_weights(value, f"{where}: {name}")
        elif getattr(value, "layout", None) != torch.strided or not isinstance(name, str):
            raise DataError(f"{where}: {name}: is a {type(value).__name__}, no tensor")
        elif fault := find_fault(value):
            raise DataError(f"{where}: {name}: {fault}; use an earlier checkpoint")


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(round, path) of every checkpoint in a folder, oldest first."""
    if not folder.is_dir():
        return []
    matches = ((PATTERN.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def latest_checkpoint(
    folder: Path, restore: Callable[[Path, dict[str, Any]], None]
) -> tuple[Path, dict[str, Any]] | None:
    """The newest intact checkpoint of a folder and its content; None if there is none at all.

    Args:
        restore: takes path and content; raises :class:`DataError` if the content does not fit the
            run, or what it refers to is damaged.
    """
    errors: list[DataError] = []
    for _, path in reversed(checkpoints(folder)):
        try:
            payload = load_checkpoint(path)
            restore(path, payload)
        except DataError as error:
            errors.append(error)
            continue
        for error in errors:
            warnings.warn(f"{error}; going back to {path.name}", stacklevel=2)
        return path, payload
    if errors:
        raise DataError(
            f"{errors[0]}; no older checkpoint in {folder} can be resumed either: without --resume "
            "the run starts anew, and the existing files are moved aside"
        )
    return None


def proved_rounds(history: Iterable[dict[str, Any]]) -> set[int]:
    """The rounds after which the model was good: of the round after them most updates counted.

    A model may be lost and still be finite; that shows in the updates of those who start from it.
    """
    proved = set()
    for line in history:
        losses = [participant["loss"] for participant in line["participants"]]
        if 2 * losses.count(None) < len(losses):
            proved.add(line["round"] - 1)
    return proved


def good_checkpoint_message(folder: Path, history: list[dict[str, Any]]) -> str:
    """The part of a failed round's message that names the newest and the last good checkpoint."""
    saved = checkpoints(folder)
    proved = proved_rounds(history)
    good = next((entry for entry in reversed(saved) if entry[0] in proved), None)
    if not saved:
        return "There is no checkpoint yet"
    newest = f"{saved[-1][1]} (round {saved[-1][0]})"
    if good is None:
        return f"No checkpoint is known to be good; the newest is {newest}"
    if good == saved[-1]:
        return f"--resume continues from the newest checkpoint, {newest}, which is good"
    return (
        f"The newest checkpoint, {newest}, is not known to be good: --resume continues from it. "
        f"The last good one is {good[1]} (round {good[0]}): delete newer ones to continue from it"
    )


@HOOKS.register_module()
class FederatedCheckpointHook(FederatedHook):
    """Writes ``checkpoints/round_000010.pth`` in the work dir and deletes what is not needed.

    Args:
        interval: rounds between checkpoints; the last round always has one.
        keep_last: newest checkpoints to keep, at least 2 (one to fall back to); the last good one
            is kept besides, should rounds go on with a minority of their updates.
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
        self.proved: set[int] = set()  # rounds after which the model was good, by the round after
        self._metrics: dict[str, float] = {}
        self._indexes: dict[int, dict[str, Any]] = {}

    def before_train(self, runner: Any) -> None:
        self.proved = proved_rounds(runner.history.read())
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

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self.proved |= proved_rounds([record])

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
        kept = self.keep_every and round_ % self.keep_every == 0
        if due or kept or improved:
            path = self._save(runner)
            if improved:
                self._copy_best(path)
        self._metrics = {}

    def on_interrupt(self, runner: Any) -> None:
        """Save the last finished round, if it is not on disk yet."""
        if runner.save_finished():
            self._clean(runner)

    def _save(self, runner: Any) -> Path:
        round_ = runner.train_loop.finished_rounds
        path = runner.save(round_)
        self._indexes[round_] = {name: store.state_dict() for name, store in runner.stores.items()}
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
        best = path.with_name(f"best_{name}.pth")
        with open(path, "rb") as source, atomic_writer(best, "wb") as target:
            shutil.copyfileobj(source, target)

    def _clean(self, runner: Any) -> None:
        saved = checkpoints(runner.checkpoint_folder)
        good = max((round_ for round_, _ in saved if round_ in self.proved), default=None)
        newest = [f for f in saved if f in saved[-self.keep_last :] or f[0] == good]
        for round_, path in saved:
            kept = self.keep_every and round_ % self.keep_every == 0
            if not kept and (round_, path) not in newest:
                path.unlink(missing_ok=True)
        for name, store in runner.stores.items():
            indexes = [self._index(round_, path).get(name, {}) for round_, path in newest]
            store.collect_garbage(indexes)
        self._indexes = {r: self._indexes[r] for r, _ in newest if r in self._indexes}

    def _index(self, round_: int, path: Any) -> dict[str, Any]:
        if round_ not in self._indexes:
            try:
                self._indexes[round_] = load_checkpoint(path).get("stores", {})
            except DataError:
                return {}
        return self._indexes[round_]

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_round": self.best_round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_round = state["best"], state.get("best_round")
