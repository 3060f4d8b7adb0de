"""How the state of a run looks: three lines that are redrawn on a terminal, or a line of text."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import util

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedseg.hooks.progress_time import clock

SHOWN_FIGURES = 4  # more would not fit into a line
GIB = 2**30


@dataclass
class Figure:
    """The newest value of a figure, and its highest so far. None: not evaluated yet."""

    value: float | None = None
    best: float | None = None

    def add(self, value: float | None) -> None:
        """A new value; None or one that is no number leaves the highest as it is."""
        self.value = value
        if value is not None and math.isfinite(value):
            self.best = value if self.best is None else max(self.best, value)


@dataclass
class Status:
    """What is shown of a run.

    Attributes:
        rounds: of the whole run.
        round: the one in progress, or the last finished.
        done: rounds done, with the share of the one in progress.
        clients: participants of this round, counted once an exchange; None: none is in progress.
        clients_done: those that have finished.
        step, steps: of the client in training, where it has many.
        loss: of the last finished round, else of the clients of the first one so far.
        figures: by name, those of the averaged model first.
        evaluating: name of the figures that are being computed; None: nothing is evaluated.
        predicted, predictions: images so far and in all of this evaluation.
        gone: seconds of the whole run so far.
        left: seconds that it still takes, or None; ``left_is_all`` is False where the time of the
            evaluations to come is not known and comes on top.
        memory, gpu_memory: peak bytes of the process and on the GPU; None: not known, not used.
    """

    rounds: int
    round: int = 0
    done: float = 0.0
    clients: int | None = None
    clients_done: int = 0
    step: int = 0
    steps: int = 0
    loss: float | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    evaluating: str | None = None
    predicted: int = 0
    predictions: int = 0
    gone: float = 0.0
    left: float | None = None
    left_is_all: bool = True
    memory: int | None = None
    gpu_memory: int | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train or to evaluate."""
        return self.done >= self.rounds and self.clients is None and self.evaluating is None


def line(status: Status) -> str:
    """The state as one line of plain text."""
    parts = [f"round {status.round}/{status.rounds}"]
    if status.evaluating is not None:
        parts.append(f"evaluating {_evaluation(status)}")
    elif status.clients is not None:
        parts.append(_clients(status))
    parts += [_loss(status), *_figures(status)]
    if not status.finished:
        parts.append(_left(status))
    return "  ".join(part for part in [*parts, *_memory(status)] if part)


def panel(status: Status) -> RenderableType:
    """The state as three lines for a terminal of any width."""
    rounds = Table.grid(padding=(0, 1), expand=True)
    for name in ("round", "bar", "percent", "time"):
        rounds.add_column(name, ratio=1 if name == "bar" else None, no_wrap=True)
    rounds.add_row(
        Text(f"round {status.round}/{status.rounds}", style="bold"),
        ProgressBar(total=status.rounds, completed=status.done),
        f"{math.floor(100 * status.done / status.rounds):3d} %",
        clock(status.gone) + ("" if status.finished else f", {_left(status)}"),
    )
    figures = [part for part in (_loss(status), *_figures(status)) if part]
    lines = [rounds, _one_line("  ".join(figures), "green")]
    if status.evaluating is not None:
        lines.append(_evaluation_bar(status))
    else:
        details = [_clients(status) if status.clients is not None else "", *_memory(status)]
        lines.append(_one_line("  ".join(part for part in details if part), "dim"))
    return Group(*lines)


def _one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _evaluation_bar(status: Status) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1)
    table.add_column(no_wrap=True)
    table.add_row(
        Text(f"evaluating {status.evaluating}".rstrip()),
        ProgressBar(total=max(1, status.predictions), completed=status.predicted),
        f"{status.predicted}/{status.predictions} images",
    )
    return table


def _evaluation(status: Status) -> str:
    return f"{status.evaluating} {status.predicted}/{status.predictions} images".lstrip()


def _clients(status: Status) -> str:
    text = f"clients {status.clients_done}/{status.clients}"
    return f"{text}, step {status.step}/{status.steps}" if status.step else text


def _loss(status: Status) -> str:
    return "" if status.loss is None else f"loss {status.loss:.3f}"


def _figures(status: Status) -> list[str]:
    # what is beside the evaluated model stands last
    names = sorted(status.figures, key=lambda name: name.startswith("global:"))
    shown = []
    for name in names[:SHOWN_FIGURES]:
        figure = status.figures[name]
        value = "-" if figure.value is None else f"{figure.value:.2f}"
        falls = figure.best is not None and figure.value != figure.best
        best = f" (best {figure.best:.2f})" if falls else ""
        shown.append(f"{name} {value}{best}")
    more = len(names) - SHOWN_FIGURES
    return [*shown, f"and {more} more"] if more > 0 else shown


def _left(status: Status) -> str:
    if status.left is None:
        return "left -"
    return f"left {clock(status.left)}" + ("" if status.left_is_all else " and evaluations")


def _memory(status: Status) -> list[str]:
    named = (("memory", status.memory), ("GPU", status.gpu_memory))
    return [f"{name} {size / GIB:.1f} GiB" for name, size in named if size is not None]


class Screen:
    """The three lines at the bottom of a terminal, redrawn twice a second.

    What the run prints meanwhile, its log's warnings among it, appears above them.

    Args:
        console: of the terminal.
        status: gives the state whenever it is drawn.
        logger: the run's.
    """

    def __init__(
        self, console: Console, status: Callable[[], Status], logger: logging.Logger
    ) -> None:
        self._live = Live(
            console=console,
            get_renderable=lambda: panel(status()),
            refresh_per_second=2,
            # standard output may well be a file, and its lines belong there
            redirect_stdout=sys.stdout.isatty(),
        )
        self._logger = logger
        self._streams = sys.stdout, sys.stderr
        self._handlers: list[tuple[logging.StreamHandler, object]] = []

    def start(self) -> None:
        """Begin to draw."""
        self._streams = sys.stdout, sys.stderr
        self._live.start()
        for handler in self._logger.handlers:
            stream = getattr(handler, "stream", None)
            if stream in self._streams and stream.isatty():
                handler.setStream(sys.stdout if stream is self._streams[0] else sys.stderr)
                self._handlers.append((handler, stream))
        util.register_after_fork(self, Screen._leave_to_parent)

    def refresh(self) -> None:
        """Draw now."""
        self._live.refresh()

    def stop(self) -> None:
        """Draw for the last time, and leave the terminal as it was."""
        for handler, stream in self._handlers:
            handler.setStream(stream)
        self._handlers = []
        self._live.stop()

    def _leave_to_parent(self) -> None:
        """A loader process writes without the locks that the drawing thread may have held."""
        sys.stdout, sys.stderr = self._streams
        for handler, stream in self._handlers:
            handler.stream = stream
