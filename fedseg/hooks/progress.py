"""What the user sees while a run goes on: lines redrawn on a terminal, or lines of a log."""

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.hooks.progress_display import Figure, Screen, Status, line
from fedseg.hooks.progress_time import TimeLeft, clock
from fedseg.registry import HOOKS

if TYPE_CHECKING:
    from fedseg.core.client import Client
    from fedseg.core.messages import ClientResult
    from fedseg.runner.runner import FederatedRunner

__all__ = ["ProgressHook", "clock"]


@HOOKS.register_module()
class ProgressHook(FederatedHook):
    """Round, clients, loss, figures, time left and memory.

    On a terminal they are redrawn in place; elsewhere there is a line after every evaluation, and
    one every ``seconds``. A quiet run (``runner.quiet``) shows nothing. Nothing here waits for the
    device: losses are read when a client's result is there.

    Args:
        seconds: without a terminal, the time between two lines.
        figure: endings of the figures shown, for example ``"mIoU"``; others are in the history.
    """

    priority = "LOW"

    def __init__(
        self, seconds: float = 20.0, figure: str | tuple[str, ...] = ("mIoU", "accuracy")
    ) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise ConfigError(f"default_hooks.progress.seconds: must be >= 0, not {seconds!r}")
        self.seconds = seconds
        self.endings = (figure,) if isinstance(figure, str) else tuple(figure)
        # rich takes FORCE_COLOR for a terminal, but a log cannot be redrawn
        self.console = Console(stderr=True, force_interactive=None if _is_terminal() else False)
        self.now: Callable[[], float] = time.perf_counter
        self.status: Status | None = None
        self._screen: Screen | None = None
        self._shown = False  # of a run, not of an evaluation by itself
        self._alone = False  # an evaluation after the rounds is shown

    # ---------------------------------------------------------------- the run

    def before_train(self, runner: "FederatedRunner") -> None:
        self._shown = not runner.quiet
        if self._shown:
            self._begin(runner, runner.train_loop.round)
            if self.status.round:
                self._say(f"going on after round {self.status.round}")

    def after_stop(self, runner: "FederatedRunner") -> None:
        if self.status is not None:
            self._end()

    def _begin(self, runner: "FederatedRunner", done: int) -> None:
        self._runner = runner
        self._done = done  # finished rounds
        self._share, self._round_began = 0.0, self.now()
        self._evaluation_began = 0.0
        self._last_line = self.now()
        self.status = Status(rounds=runner.max_rounds, round=done, done=done)
        predictions = predictions_by_round(runner)
        self._time_left = TimeLeft(runner.max_rounds, predictions)
        if done:
            self._learn(runner, predictions)
        if self.console.is_interactive:
            self._screen = Screen(self.console, self._current, runner.logger)
            self._screen.start()

    def _end(self) -> None:
        if self._screen is not None:
            self._screen.stop()
        self._screen = self.status = None

    def _learn(self, runner: "FederatedRunner", predictions: Callable[[int], int]) -> None:
        """What the rounds of a resumed run took, its loss and its figures, from their history."""
        for record in runner.history.read():
            seconds = record["seconds"]
            self._time_left.add_round(seconds["train"] + seconds["aggregate"])
            if record.get("metrics"):
                made = predictions(record["round"])
                self._time_left.add_evaluation(made, seconds["evaluate"])
                self._add_figures(record["metrics"])
            self.status.loss = record["loss"]

    # ---------------------------------------------------------------- a round

    def before_round(self, runner: "FederatedRunner") -> None:
        if self.status is None:
            return
        participants = runner.client_sampler.participants(runner.round)
        exchanges = runner.algorithm.exchanges
        steps = sum(runner.data.num_steps(client) for client in participants)
        self._round_steps, self._steps_done = max(1, steps * exchanges), 0
        self._loss_sum, self._samples = 0.0, 0  # of the results so far
        self.status.round = runner.round
        self.status.clients, self.status.clients_done = len(participants) * exchanges, 0
        self.status.step = 0

    def after_local_steps(self, runner: "FederatedRunner", client: "Client") -> None:
        if self.status is None:
            return
        self.status.step, self.status.steps = client.step, client.num_steps
        self._share = (self._steps_done + client.step) / self._round_steps
        self._tell_now_and_then()

    def after_result(self, runner: "FederatedRunner", result: "ClientResult") -> None:
        if self.status is None:
            return
        self.status.clients_done += 1
        self.status.step = 0
        self._steps_done += result.task.num_steps
        self._share = self._steps_done / self._round_steps
        # later rounds show the loss of the round before, which is over all its clients
        if self._done == 0 and runner.algorithm.trains(result.task.exchange):
            if math.isfinite(result.loss):
                self._loss_sum += result.loss * result.task.num_samples
                self._samples += result.task.num_samples
            if self._samples:
                self.status.loss = self._loss_sum / self._samples
        self._tell_now_and_then()

    def after_round(self, runner: "FederatedRunner", record: dict[str, Any]) -> None:
        if self.status is None:
            return
        self._time_left.add_round(self.now() - self._round_began)
        self._done, self._share = record["round"], 0.0
        self.status.clients = None
        self.status.loss = record["loss"]
        self._look_at_gpu()

    def after_train_epoch(self, runner: "FederatedRunner") -> None:
        if self.status is not None:
            self._round_began = self.now()  # of the next one, which pays for this one's checkpoint
            self._tell_now_and_then()

    # ---------------------------------------------------------------- an evaluation

    def before_val(self, runner: "FederatedRunner") -> None:
        if not self._shown:
            return
        if self.status is None:  # a run that was resumed after its last round
            self._begin(runner, runner.train_loop.round)
            self._alone = True
        self.status.evaluating, self.status.predicted = "", 0
        self.status.predictions = runner.val_loop.num_predictions(runner.round)
        self._evaluation_began = self.now()

    def after_val_batch(self, runner: "FederatedRunner", figures: str, samples: int) -> None:
        if self.status is None or self.status.evaluating is None:
            return
        self.status.evaluating = figures
        self.status.predicted += samples
        self._tell_now_and_then()

    def after_val_epoch(self, runner: "FederatedRunner", metrics: dict[str, float]) -> None:
        if self.status is None:
            return
        taken = self.now() - self._evaluation_began
        self._time_left.add_evaluation(self.status.predictions, taken)
        self.status.evaluating = None
        self._add_figures(metrics)
        self._look_at_gpu()
        self._tell()

    def after_val(self, runner: "FederatedRunner") -> None:
        if self._alone:
            self._alone = False
            self._end()

    def _add_figures(self, metrics: dict[str, float | None]) -> None:
        for name, value in metrics.items():
            if name.endswith(self.endings):
                self.status.figures.setdefault(name, Figure()).add(value)

    # ---------------------------------------------------------------- showing it

    def _current(self) -> Status:
        """The state at this moment; on a terminal a thread of its own asks for it."""
        status, now = self.status, self.now()
        status.done = self._done + self._share
        status.gone = self._runner.seconds
        rounds = status.rounds - status.done
        predictions = self._time_left.predictions_after(self._done)
        round_pace = (now - self._round_began) / self._share if self._share else None
        prediction_pace = None
        if status.evaluating is not None:
            predictions += max(0, status.predictions - status.predicted)
            if status.predicted:
                prediction_pace = (now - self._evaluation_began) / status.predicted
        left, status.left_is_all = self._time_left.seconds(
            rounds, predictions, round_pace, prediction_pace
        )
        status.left = left if math.isfinite(left) else None
        status.memory = peak_memory()
        return status

    def _look_at_gpu(self) -> None:
        """Between rounds, from the run's own thread: the drawing one keeps away from the device."""
        device = self._runner.flat.w.device
        if device.type == "cuda":
            self.status.gpu_memory = torch.cuda.max_memory_allocated(device)

    def _tell_now_and_then(self) -> None:
        if self._screen is None and self.now() - self._last_line >= self.seconds:
            self._tell()

    def _tell(self) -> None:
        """A line, where there is no terminal."""
        if self._screen is None:
            self._say(line(self._current()))
            self._last_line = self.now()

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def predictions_by_round(runner: "FederatedRunner") -> Callable[[int], int]:
    """How many predictions the evaluation after a round makes."""
    train, val, rounds = runner.train_loop, runner.val_loop, runner.max_rounds
    if val is None:
        return lambda round_: 0
    ordinary, last = val.num_predictions(0), val.num_predictions(rounds)
    return lambda round_: last if round_ == rounds else ordinary * train.evaluates(round_)


def peak_memory() -> int | None:
    """Highest resident memory of this process so far, in bytes; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux KiB


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
