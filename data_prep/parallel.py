"""Many small jobs with a progress bar on stderr: in threads or in processes."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

import cv2
from rich import progress
from rich.console import Console

T = TypeVar("T")
R = TypeVar("R")


def track(results: Iterable[R], total: int, title: str) -> Iterator[R]:
    """Yield the results one by one, with a bar that shows how many of ``total`` there are."""
    return progress.track(results, title, total, console=Console(stderr=True))


def in_threads(function: Callable[[T], R], items: Sequence[T], title: str) -> list[R]:
    """Apply a function to each item in two threads; the results are in order."""
    with ThreadPoolExecutor(2) as pool:
        return list(track(pool.map(function, items), len(items), title))


def in_processes(function: Callable[[T], R], jobs: Sequence[T], workers: int) -> Iterator[R]:
    """Yield ``function(job)`` of each job, in order.

    With fewer than two workers it is called in this process.
    """
    if workers < 2:
        yield from map(function, jobs)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker) as pool:
        yield from pool.map(function, jobs)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    cv2.setNumThreads(1)  # one process per core is faster than threads inside
