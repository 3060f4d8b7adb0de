"""Signals without loss: a run stops at its next safe point."""

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from fedseg.errors import Interrupted, is_lost_loader
from fedseg.loaders.workers import SIGNALS

HANGUP = getattr(signal, "SIGHUP", None)  # a terminal is closed; nohup ignores it


class InterruptGuard:
    """While active, SIGINT, SIGTERM and SIGHUP ask the run to stop; another SIGINT ends it.

    Call :meth:`check` where the run may stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN or number != HANGUP:
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested = True
            text = "\nstopping at the next safe point (Ctrl-C again: at once)"
            with suppress(OSError):  # Ctrl-C ends the tee, too, that standard error may go to
                try:
                    print(text, file=sys.stderr)
                except RuntimeError as error:  # it came in the middle of another print
                    if is_lost_loader(error):  # or a loader process died now
                        raise
                    os.write(2, text.encode() + b"\n")

    def check(self) -> None:
        """Raise :class:`Interrupted` if a stop was asked for."""
        if self.requested:
            raise Interrupted("stopped")
