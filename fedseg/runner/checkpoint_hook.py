"""When checkpoints are written and which are kept."""

import shutil
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge
from pydantic import NonNegativeInt, PositiveInt

from fedseg.checks import is_number
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer
from fedseg.metric_names import Metric
from fedseg.registry import HOOKS
from fedseg.runner.checkpoint import (
    checkpoint_path,
    checkpoints,
    load_checkpoint,
    proved_rounds,
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
        self._metrics = metrics
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
        round_ = runner.train_loop.round
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
        found = checkpoints(runner.checkpoint_folder)
        good = max((round_ for round_, _ in found if round_ in self.proved), default=None)
        newest = [f for f in found if f in found[-self.keep_last :] or f[0] == good]
        for round_, path in found:
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
