"""Processes that load samples: how they start, and how they end with the program."""

import atexit
import multiprocessing
import multiprocessing.util  # it registers a function at exit, which has to run after ours
import signal

import cv2

# what a terminal or a scheduler sends to every process of a run; the main one answers it
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


def init_worker(worker: int) -> None:
    """Set a loader process up: no threads of OpenCV's beside it, signals to the main process."""
    cv2.setNumThreads(0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@atexit.register
def kill_workers() -> None:
    """Kill the loader processes that are left when the program ends, such as one that hangs.

    Python's multiprocessing would send them SIGTERM, which they ignore, and wait.
    """
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises for a killed one
    for process in multiprocessing.active_children():
        if process.daemon:
            process.kill()
