"""Progress of a run on standard error: redrawn on a terminal, a line per evaluation elsewhere."""

import errno
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from logging import StreamHandler
from typing import Any

import torch
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fedseg.core.hook import FederatedHook
from fedseg.metric_names import SPREAD, Metric
from fedseg.registry import HOOKS
from fedseg.units import format_bytes, format_duration, peak_memory

REDRAWN = 0.25  # seconds between two drawings
SHOWN_METRICS = 4


class RunProgress(Progress):
    """Bars of the rounds and of the work in progress, and a line of results below them.

    No thread draws: a process that is forked for loading data finds no lock held.
    """

    def __init__(self, console: Console, disable: bool) -> None:
        self.results = ""
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
            speed_estimate_period=math.inf,
            redirect_stdout=sys.stdout.isatty(),
            disable=disable,
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.results:
            yield Text(self.results, "green", no_wrap=True, overflow="ellipsis")


@HOOKS.register_module()
class ProgressHook(FederatedHook):
    """Round, clients, loss, metrics and time left; nothing if ``runner.quiet``.

    On a terminal they are redrawn; elsewhere there is a line after every evaluation. Nothing here
    waits for the device. The run's log file has the line of every evaluation, also if the run is
    quiet.

    Args:
        metric: ending of the names of the metrics to show on a terminal (at most four); None:
            ``"mIoU"`` and ``"accuracy"``.
    """

    priority = "LOW"

    def __init__(self, metric: str | None = None) -> None:
        self.endings = ("mIoU", "accuracy") if metric is None else (metric,)
        self.console = _standard_error()
        self._progress: RunProgress | None = None

    def before_train(self, runner: Any) -> None:
        self._prints = not runner.quiet and not self.console.is_interactive
        self._draws = not runner.quiet and self.console.is_interactive
        self._drawn = -math.inf
        self._clients_done = 0
        self._loss: float | None = None
        self._metrics: dict[str, float | None] = {}
        self._handlers = _handlers_of_standard_output(runner.logger)
        self._progress = RunProgress(self.console, disable=not self._draws)
        self._rounds = self._progress.add_task(
            "rounds", total=runner.max_rounds, completed=runner.round
        )
        self._work = self._progress.add_task("clients", visible=False)
        self._write(self._progress.start)
        for handler in self._handlers:
            handler.setStream(sys.stdout)  # as redirected: messages stand above the bars

    def before_round(self, runner: Any) -> None:
        participants = len(runner.client_sampler.participants(runner.round))
        self._clients_done = 0
        self._begin_work("clients", participants * len(runner.algorithm.exchanges))

    def after_local_steps(self, runner: Any, client: Any) -> None:
        self._advance(runner, self._clients_done + client.step / client.num_steps)

    def after_result(self, runner: Any, result: Any) -> None:
        self._clients_done += 1
        self._advance(runner, self._clients_done)

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self._loss = record["loss"]
        self._progress.update(self._rounds, completed=record["round"])
        self._show_results()

    def before_val(self, runner: Any) -> None:
        self._begin_work("evaluating", runner.val_loop.num_predictions(runner.round))

    def after_val_batch(self, runner: Any, prefix: str, samples: int) -> None:
        if self._progress is None:  # a test of a checkpoint
            return
        self._progress.update(self._work, advance=samples, description=f"evaluating {prefix}")
        self._draw()

    def after_val_epoch(self, runner: Any, metrics: dict[str, float | None]) -> None:
        self._metrics = metrics
        self._show_results()
        line = self._line(runner, metrics)
        runner.logger.info(line)
        if self._prints:
            self._write(lambda: self.console.print(Text(line), soft_wrap=True))

    def after_stop(self, runner: Any) -> None:
        if self._progress is None:
            return
        self._draws = False
        with suppress(OSError):  # the terminal was closed
            self._progress.stop()
        for handler in self._handlers:
            handler.setStream(sys.stdout)

    def _begin_work(self, description: str, total: int) -> None:
        self._progress.reset(self._work, total=total, description=description, visible=True)
        self._draw()

    def _advance(self, runner: Any, clients: float) -> None:
        """Show how many clients of the round are done, and what the executor says of its work."""
        status = getattr(runner.executor, "status", "")
        description = f"clients  {status}" if status else "clients"
        self._progress.update(self._work, completed=clients, description=description)
        self._draw()

    def _show_results(self) -> None:
        parts = []
        if self._loss is not None:
            parts.append(f"loss {self._loss:.3f}")
        names = [name for name in self._metrics if name.endswith(self.endings)]
        names.sort(key=lambda name: Metric.parse(name).is_global)  # averaged models first
        for name in names[:SHOWN_METRICS]:
            parts.append(f"{name} {_number(self._metrics[name], 2)}")
        self._progress.results = "  ".join(parts)
        self._draw()

    def _draw(self) -> None:
        now = time.perf_counter()
        if self._draws and now - self._drawn >= REDRAWN:
            self._drawn = now
            self._write(self._progress.refresh)

    def _write(self, write: Callable[[], None]) -> None:
        """Write to the terminal or log; if it is closed or full, the run goes on without."""
        try:
            write()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ENOSPC):
                raise
            self._draws = self._prints = False

    def _line(self, runner: Any, metrics: dict[str, float | None]) -> str:
        """``Round(val) [50/100]  lr: 1.0000e-01  eta: 0:10:00  ...``, as MMEngine writes it."""
        parts = [f"Round(val) [{runner.round}/{runner.max_rounds}]"]
        record = runner.train_loop.pending or {}  # empty before the first round
        if record.get("lr") is not None:
            parts.append(f"lr: {record['lr']:.4e}")
        seconds = self._progress.tasks[0].time_remaining
        if seconds is not None:
            parts.append(f"eta: {format_duration(seconds)}")
        memory = peak_memory()
        if memory is not None:
            parts.append(f"memory: {format_bytes(memory)}")
        device = runner.flat.w.device
        if device.type == "cuda":
            parts.append(f"GPU: {format_bytes(torch.cuda.max_memory_allocated(device))}")
        if record.get("loss") is not None:
            parts.append(f"loss: {record['loss']:.4f}")
        for name, value in metrics.items():
            if not name.endswith(tuple(SPREAD)):
                parts.append(f"{name}: {_number(value, 4)}")
        return "  ".join(parts)


def _standard_error() -> Console:
    """Standard error; where it is no terminal, FORCE_COLOR does not make it one."""
    console = Console(stderr=True)
    if console.file.isatty():
        return console
    return Console(stderr=True, force_interactive=False)


def _handlers_of_standard_output(logger: Any) -> list[StreamHandler]:
    return [h for h in logger.handlers if getattr(h, "stream", None) is sys.stdout]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
