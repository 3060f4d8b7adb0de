"""Ctrl-C without loss: the first one asks the run to stop at the next safe point."""

import signal
import sys
import threading
from types import FrameType, TracebackType

from fedseg.errors import Interrupted


class InterruptGuard:
    """While active, SIGINT and SIGTERM set a flag; a second SIGINT stops at once.

    Call :meth:`check` where the run may stop: it raises :class:`Interrupted` once the flag is set.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping at the next safe point (Ctrl-C again: at once)", file=sys.stderr)

    def check(self) -> None:
        """Raise :class:`Interrupted` if a stop was asked for."""
        if self.requested:
            raise Interrupted("stopped")
