"""Many small jobs with a progress bar on stderr: in threads or in processes."""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

import cv2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
R = TypeVar("R")


def progress_bar(shown: bool = True) -> Progress:
    """A bar with counts and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not shown,
    )


def in_threads(
    function: Callable[[T], R], items: Sequence[T], title: str, workers: int = 2
) -> list[R]:
    """``[function(item) for item in items]``."""
    with progress_bar() as progress, ThreadPoolExecutor(workers) as pool:
        results = pool.map(function, items)
        return list(progress.track(results, total=len(items), description=title))


def in_processes(function: Callable[[T], R], jobs: Iterable[T], workers: int) -> Iterator[R]:
    """``function(job)`` of each job, in order; jobs are taken as processes become free.

    Args:
        function: importable by a new process.
        jobs: may be a generator; it runs in this process.
        workers: processes; below 2 everything runs in this one.
    """
    if workers < 2:
        threads = cv2.getNumThreads()
        cv2.setNumThreads(1)
        try:
            yield from map(function, jobs)
        finally:
            cv2.setNumThreads(threads)
        return
    waiting = iter(jobs)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker) as pool:
        running = deque(pool.submit(function, job) for job in islice(waiting, 2 * workers))
        try:
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(function, job) for job in islice(waiting, 1))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    cv2.setNumThreads(1)  # one process per core is faster than threads inside
