"""Progress of a run on standard error: three lines redrawn on a terminal, plain lines in a log."""

import errno
import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import util
from typing import Any

import torch
from pydantic import NonNegativeFloat
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from fedseg.core.hook import FederatedHook
from fedseg.metric_names import SPREAD, Metric
from fedseg.registry import HOOKS
from fedseg.units import format_bytes, format_duration, peak_memory

Endings = str | Sequence[str] | None


class Screen(Live):
    """Lines at the bottom of a terminal; what is printed or logged meanwhile goes above them."""

    def __init__(self, hook: "ProgressHook", handlers: list[Any]) -> None:
        self._streams = sys.stdout, sys.stderr
        options = {"refresh_per_second": 2, "redirect_stdout": sys.stdout.isatty()}
        super().__init__(console=hook.console, get_renderable=hook.panel, **options)
        self._handlers = [h for h in handlers if getattr(h, "stream", None) is sys.stdout]
        self.start(refresh=True)
        for handler in self._handlers:
            handler.stream = sys.stdout  # as redirected
        util.register_after_fork(self, Screen._restore)

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._restore()

    def _restore(self) -> None:
        # no lock: in a forked loader process the parent's drawing thread holds them for ever
        sys.stdout, sys.stderr = self._streams
        for handler in self._handlers:
            handler.stream = sys.stdout


@HOOKS.register_module()
class ProgressHook(FederatedHook):
    """Round, clients, loss, metrics, time left and memory; nothing if ``runner.quiet``.

    On a terminal they are redrawn; elsewhere there is a line after the first round, after every
    evaluation, and every ``seconds``. Nothing here waits for the device. The run's log file has a
    line for every evaluation, as MMEngine's has, also if the run is quiet.

    Args:
        seconds: time between two lines without a terminal.
        metric: endings of the metrics to show (at most four), for example ``"mIoU"``.
    """

    priority = "LOW"

    def __init__(self, seconds: NonNegativeFloat = 20.0, metric: Endings = None) -> None:
        shown = metric or ("mIoU", "accuracy")
        self.seconds, self.endings = seconds, shown if isinstance(shown, str) else tuple(shown)
        # rich takes FORCE_COLOR for a terminal, but a log cannot be redrawn
        terminal = None if sys.stderr and sys.stderr.isatty() else False
        self.console = Console(stderr=True, force_interactive=terminal)
        self.now = time.perf_counter
        self._shown, self._screen = False, None
        self._clients, self._clients_done, self._step, self._share, self._loss = 0, 0, "", 0.0, None
        self._evaluating, self._predicted, self._to_predict = "", 0, 0
        self._rounds, self._evaluations = deque(maxlen=20), deque(maxlen=20)  # (amount, seconds)
        self._metrics: list[dict[str, float | None]] = []  # of all evaluations

    def before_train(self, runner: Any) -> None:
        self._runner, self._shown, self._finished = runner, not runner.quiet, runner.round
        self._round_began = self._val_began = self._last_line = self.now()
        loop, val, rounds = runner.train_loop, runner.val_loop, range(1, runner.max_rounds + 1)
        self._planned = [val.num_predictions(r) if val and loop.evaluates(r) else 0 for r in rounds]
        for record in runner.history.read():  # of a resumed run
            seconds, self._loss = record["seconds"], record["loss"]
            self._rounds.append((1, seconds["train"] + seconds["aggregate"]))
            if record.get("metrics") and val:
                images = val.num_predictions(record["round"])
                self._evaluations.append((images, seconds["evaluate"]))
                self._metrics.append(record["metrics"])
        if runner.round:
            self._print(f"resuming after round {runner.round}")
        if self._shown and self.console.is_interactive:
            self._screen = Screen(self, runner.logger.handlers)

    def before_round(self, runner: Any) -> None:
        participants = len(runner.client_sampler.participants(runner.round))
        self._clients, self._clients_done = participants * len(runner.algorithm.exchanges), 0

    def after_local_steps(self, runner: Any, client: Any) -> None:
        self._step = f", step {client.step}/{client.num_steps}"
        self._share = (self._clients_done + client.step / client.num_steps) / self._clients
        self._print(every=self.seconds)

    def after_result(self, runner: Any, result: Any) -> None:
        self._clients_done, self._step = self._clients_done + 1, ""
        self._share = self._clients_done / self._clients
        if not self._finished and runner.algorithm.exchanges[result.task.exchange].train:
            self._loss = result.loss  # later rounds show the mean of the round before
        self._print(every=self.seconds)

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        first = not self._rounds
        self._rounds.append((1, self.now() - self._round_began))
        self._finished, self._share, self._clients = record["round"], 0.0, 0
        self._loss = record["loss"]
        if first:
            self._print()

    def after_train_epoch(self, runner: Any) -> None:
        self._round_began = self.now()  # of the next round, which pays for this one's checkpoint

    def before_val(self, runner: Any) -> None:
        self._predicted, self._to_predict = 0, runner.val_loop.num_predictions(runner.round)
        self._val_began = self.now()

    def after_val_batch(self, runner: Any, prefix: str, samples: int) -> None:
        self._evaluating, self._predicted = f" {prefix}", self._predicted + samples
        self._print(every=self.seconds)

    def after_val_epoch(self, runner: Any, metrics: dict[str, float | None]) -> None:
        self._evaluations.append((self._predicted, self.now() - self._val_began))
        self._evaluating, self._predicted, self._to_predict = "", 0, 0
        self._metrics.append(metrics)
        self._print()
        runner.logger.info(self._log_line(runner.train_loop.pending or {}, metrics))

    def after_stop(self, runner: Any) -> None:
        if self._screen is not None:
            with suppress(OSError):  # the terminal was closed
                self._screen.stop()
            self._screen = None

    def _print(self, text: str = "", every: float = 0.0) -> None:
        if self._shown and self._screen is None and self.now() - self._last_line >= every:
            text = text or _join(*self._texts(), self._times(), self._memory())
            try:
                self.console.print(text, markup=False, highlight=False, soft_wrap=True)
            except OSError as error:
                # a closed terminal, a full disk: what is printed is not worth a run
                if error.errno not in (errno.EIO, errno.ENOSPC):
                    raise
                self._shown = False
            self._last_line = self.now()

    def _log_line(self, record: dict[str, Any], metrics: dict[str, float | None]) -> str:
        """``Round(val) [50/100]  lr: 1.0000e-01  eta: 0:10:00  ...``, as MMEngine writes it.

        ``record``: the line of the round in the history; empty before the first round.
        """
        parts = [f"Round(val) [{self._runner.round}/{self._runner.max_rounds}]"]
        if record.get("lr") is not None:
            parts.append(f"lr: {record['lr']:.4e}")
        seconds, _ = self._seconds_left()
        if seconds is not None:
            parts.append(f"eta: {format_duration(seconds)}")
        parts += [f"{name}: {size}" for name, size in self._peaks().items()]
        if record.get("loss") is not None:
            parts.append(f"loss: {record['loss']:.4f}")
        for name, value in metrics.items():
            if not name.endswith(tuple(SPREAD)):
                parts.append(f"{name}: {'-' if value is None else f'{value:.4f}'}")
        return _join(*parts)

    def panel(self) -> Table:
        """The state of the run in three lines, for a terminal of any width."""
        done, rounds = self._finished + self._share, self._runner.max_rounds
        percent, (round_, work, results) = f"{int(100 * done / rounds)} %", self._texts()
        evaluation = _bar(work, self._predicted, self._to_predict, "")
        panel = Table.grid(Column(no_wrap=True), expand=True)
        panel.add_row(_bar(round_, done, rounds, _join(percent, self._times())))
        panel.add_row(Text(results, "green"))
        panel.add_row(evaluation if self._to_predict else Text(_join(work, self._memory()), "dim"))
        return panel

    def _texts(self) -> tuple[str, str, str]:
        work = f"clients {self._clients_done}/{self._clients}{self._step}" if self._clients else ""
        if self._to_predict:
            work = f"evaluating{self._evaluating} {self._predicted}/{self._to_predict} images"
        work = _join(work, getattr(getattr(self._runner, "executor", None), "status", ""))
        results = [] if self._loss is None else [f"loss {self._loss:.3f}"]
        names = [n for n in (self._metrics or [{}])[-1] if n.endswith(self.endings)]
        averaged_first = sorted(names, key=lambda n: Metric.parse(n).is_global)
        for name in averaged_first[:4]:
            values = [metrics.get(name) for metrics in self._metrics]
            best = max((v for v in values if v is not None and math.isfinite(v)), default=None)
            newest = "-" if values[-1] is None else f"{values[-1]:.2f}"
            note = "" if best in (None, values[-1]) else f" (best {best:.2f})"
            results.append(f"{name} {newest}{note}")
        return f"round {self._runner.round}/{self._runner.max_rounds}", work, _join(*results)

    def _times(self) -> str:
        """Time spent, and time for the rounds and the evaluations still to come."""
        elapsed = f"{format_duration(self._runner.seconds)} elapsed"
        seconds, complete = self._seconds_left()
        if seconds is None or (complete and not seconds):
            return elapsed
        left = f"{elapsed}, {format_duration(seconds)} left"
        return left if complete else f"{left} plus evaluations"

    def _seconds_left(self) -> tuple[float | None, bool]:
        """Estimated seconds of the rounds and evaluations to come; whether evaluations count.

        None before anything was measured, 0 at the end.
        """
        now, rounds = self.now(), self._runner.max_rounds - self._finished - self._share
        images = sum(self._planned[self._finished :]) + self._to_predict - self._predicted
        training = _estimate(rounds, self._rounds, self._share, now - self._round_began)
        evaluation = _estimate(images, self._evaluations, self._predicted, now - self._val_began)
        if training is None:
            return None, False
        return training + (evaluation or 0.0), evaluation is not None

    def _memory(self) -> str:
        return _join(*(f"{name} {size}" for name, size in self._peaks().items()))

    def _peaks(self) -> dict[str, str]:
        """The most memory that was used so far, by kind, for the reader."""
        device, sizes = self._runner.flat.w.device, {"memory": peak_memory()}
        if device.type == "cuda":
            sizes["GPU"] = torch.cuda.max_memory_allocated(device)
        return {name: format_bytes(size) for name, size in sizes.items() if size}


def _estimate(amount: float, measured: Any, done: float, taken: float) -> float | None:
    """Seconds for an amount of work at the mean measured pace, or else at the pace so far."""
    done, taken = map(sum, zip(*(measured or [(done, taken)]), strict=True))
    return 0.0 if not amount else amount * taken / done if done else None


def _join(*texts: str) -> str:
    return "  ".join(filter(None, texts))


def _bar(text: str, done: float, total: float, right: str) -> Table:
    columns = (Column(no_wrap=True), Column(ratio=1), Column(no_wrap=True))
    table = Table.grid(*columns, padding=(0, 1), expand=True)
    table.add_row(Text(text), ProgressBar(total=total, completed=done), right)
    return table
