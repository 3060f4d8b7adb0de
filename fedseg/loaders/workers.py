"""Loader processes: they leave signals to the main process, die with it, and are watched by it."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

import cv2
from torch.utils.data import DataLoader, get_worker_info

# what a terminal or a scheduler sends to every process of a run; the main one answers it
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
PARENT_DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
WATCH_SECONDS = 0.5
IDLE = -1


class WorkerError(Exception):
    """Loader processes died, or gave no batch in time.

    Args:
        reason: what happened. samples: at which they were. killed: by SIGKILL.
    """

    def __init__(self, reason: str, samples: list[int], killed: bool = False) -> None:
        super().__init__(reason)
        self.samples, self.killed = samples, killed


class Places:
    """At which sample each loader process is, in shared memory.

    Args:
        workers: how many processes.
    """

    def __init__(self, workers: int) -> None:
        self._samples = multiprocessing.RawArray("q", [IDLE] * workers) if workers else []

    def __getitem__(self, worker: int) -> int:
        return self._samples[worker]

    def enter(self, sample: int) -> None:
        """Called before each sample, and with ``IDLE`` after it; the main process has no place."""
        worker = get_worker_info()
        if worker is not None:
            self._samples[worker.id] = sample


def init_worker(_worker: int) -> None:
    """Set a loader process up; OpenCV's own threads would fight the processes for the cores."""
    cv2.setNumThreads(0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _mask("SIG_UNBLOCK")
    if sys.platform == "linux":  # elsewhere torch has it notice, unless it hangs
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if not multiprocessing.parent_process().is_alive():
            os._exit(1)


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), SIGNALS)


def start_workers(loader: DataLoader) -> Iterator[Any]:
    """``iter`` of a loader with processes, which then begin to work."""
    main = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGCHLD")
    before = signal.getsignal(signal.SIGCHLD) if main else None
    _mask("SIG_BLOCK")  # a new process would answer a signal until it is set up
    try:
        batches = iter(loader)
    finally:
        _mask("SIG_UNBLOCK")
        if main:  # torch's handler raises wherever the run is, where nothing can be saved
            handler = before if not getattr(before, "__module__", "").startswith("torch.") else None
            signal.signal(signal.SIGCHLD, handler or signal.SIG_DFL)
    for worker in batches._workers:  # what ends it at the latest: it ignores SIGTERM
        worker._popen.terminate = worker._popen.kill
    return batches


def watch(batches: Iterator[Any], places: Places, timeout: float | None) -> Iterator[Any]:
    """The batches of :func:`start_workers`; WorkerError if a process died or no batch came in time.

    Args:
        batches: the iterator.
        places: where its processes are.
        timeout: seconds in which a batch must come; None: it may take for ever.
    """
    workers = batches._workers
    guard = _Watch(workers, places, timeout)
    try:
        while True:
            guard.since = time.monotonic()
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:
                # torch tells of a death in many ways, some before the process has quite ended
                ended = _ended(workers)
                if guard.late is not None:
                    reason = f"no batch came within timeout={timeout:g} s"
                    raise WorkerError(reason, guard.late) from error
                if not ended:
                    raise
                causes = ", ".join(_cause(workers[n].pid, workers[n].exitcode) for n in ended)
                killed = any(workers[n].exitcode == -signal.SIGKILL for n in ended)
                raise WorkerError(causes, [places[n] for n in ended], killed) from error
            finally:
                guard.since = None
            yield batch
    finally:
        guard.closed.set()


def _ended(workers: Sequence[Any]) -> list[int]:
    # torch raises once for a death, perhaps while this waits
    try:
        ending = wait([worker.sentinel for worker in workers], timeout=1)
        for worker in workers:
            if worker.sentinel in ending:
                worker.join()  # what it held is closed before there is an exit code
    except RuntimeError:
        return _ended(workers)
    return [n for n, worker in enumerate(workers) if worker.exitcode]


def _cause(pid: int, code: int) -> str:
    if code >= 0:
        return f"loader process {pid} ended with exit code {code}"
    number = signal.Signals(-code)
    hint = " (as when memory runs out)" if number in (signal.SIGKILL, signal.SIGBUS) else ""
    return f"loader process {pid} was killed by {number.name}{hint}"


class _Watch:
    """A thread that kills loader processes when no batch comes.

    Waiting with a timeout would not do: a process may stop when half of its batch is read.
    """

    def __init__(self, workers: list[Any], places: Places, timeout: float | None) -> None:
        self.since: float | None = None
        self.late: list[int] | None = None  # where the processes were when it was too late
        self.closed = threading.Event()
        self._workers, self._places, self._timeout = workers, places, timeout
        if timeout is not None:
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.closed.wait(WATCH_SECONDS):
            since = self.since
            if since is not None and time.monotonic() - since > self._timeout:
                self.late = [self._places[n] for n in range(len(self._workers))]
                for worker in self._workers:
                    worker.kill()
                return
