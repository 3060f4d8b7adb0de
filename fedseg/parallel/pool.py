"""Workers that are replaced when they die, and work that is done again elsewhere.

Ray's ``max_restarts``, ``max_task_retries`` and ``ActorPool`` would not do: a restarted actor does
not say why the last one died, a retry is counted for every call that was queued and not for the one
that killed it, and handing out calls as they come would break the order in which workers prefetch
their clients' data.
"""

import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from logging import Logger
from typing import Any

from fedseg.errors import LoaderKilled, UserError, WorkersLost
from fedseg.parallel.worker import Report, Worker
from fedseg.units import format_bytes

ATTEMPTS = 3
POLL = 0.1  # seconds
SOON = 0.1  # seconds of calls that are sent ahead, so that no worker waits for the next one


@dataclass(eq=False)
class Work:
    """A call of a worker's method.

    Attributes:
        worker: who should do it.
        arguments: from the return value of the worker's :meth:`Worker.build` to those of the call.
        title: for messages. cost: proportional to time among calls of the method.
        failures: workers that died of it. place: among the work of a run, set by the pool.
    """

    worker: int
    method: str
    arguments: Callable[[Any], tuple[Any, ...]]
    title: str
    cost: float
    failures: int = 0
    place: int = -1


@dataclass
class _Slot:
    """A worker: its present actor, its calls in flight and those to come."""

    actor: Any = None
    ready: bool = False  # the actor is built
    built: Any = None  # the return value of that
    doing: deque[Work] = field(default_factory=deque)  # one, or some that end soon
    queue: deque[Work] = field(default_factory=deque)
    failures: int = 0  # deaths before it was ready, in a row


class Pool:
    """Workers, one actor each.

    Args:
        resources: of each worker, as Ray's actors take them (``num_cpus``, ``num_gpus``).
        arguments: a worker's number -> the arguments of :meth:`Worker.build`.
        check: called while waiting; raises to stop.
        restart_timeout: seconds without any worker after which to give up.

    Attributes:
        restarts: the reasons why workers were replaced so far.
        memory: highest peak of a worker, bytes.
    """

    def __init__(
        self,
        workers: int,
        resources: dict[str, float],
        arguments: Callable[[int], tuple[Any, ...]],
        *,
        logger: Logger,
        check: Callable[[], None],
        restart_timeout: float,
    ) -> None:
        import ray

        self.ray = ray
        self.arguments, self.logger, self.check = arguments, logger, check
        self.restart_timeout, self.resources = restart_timeout, resources
        self.restarts: list[str] = []
        self.memory = 0
        self._seconds: dict[str, float] = defaultdict(lambda: SOON)  # method -> of the last call
        # call in flight -> number of the worker and work; None: its start
        self._refs: dict[Any, tuple[int, Work | None]] = {}
        self._alone_since = time.monotonic()
        self._actor = ray.remote(Worker).options(max_restarts=0, **resources)
        self._slots = [_Slot() for _ in range(workers)]
        for number in range(workers):
            self._start(number)

    @property
    def in_flight(self) -> int:
        """Workers that are busy."""
        return sum(bool(slot.doing) for slot in self._slots)

    def _start(self, number: int) -> None:
        slot = self._slots[number]
        slot.actor, slot.ready = self._actor.remote(), False
        self._refs[slot.actor.build.remote(*self.arguments(number))] = number, None

    # ---------------------------------------------------------------- doing work

    def run(self, works: Iterable[Work], ahead: int | None = None) -> Iterator[list[Report]]:
        """Do all work; yields the reports in its order, all that are there at a time.

        Args:
            ahead: take so many from ``works`` at a time; None: all.
        """
        works, started, yielded = iter(works), 0, 0
        done: dict[int, Report | Exception] = {}
        exhausted = False
        try:
            while True:
                while not exhausted and (ahead is None or started - yielded - len(done) < ahead):
                    work = next(works, None)
                    exhausted = work is None
                    if work is not None:
                        work.place, started = started, started + 1
                        self._slots[work.worker].queue.append(work)
                self._submit()
                if yielded in done:
                    self._collect(done, 0)  # workers must not wait for who takes the reports
                    self._submit()
                    reports = []
                    while isinstance(report := done.get(yielded), Report):
                        reports.append(report)
                        del done[yielded]
                        yielded += 1
                    if not reports:
                        raise done[yielded]
                    yield reports
                elif exhausted and yielded == started:
                    return
                else:
                    self._collect(done, POLL)
        finally:
            for slot in self._slots:
                slot.queue.clear()

    def _submit(self) -> None:
        """Call idle workers, with work from their own queues or from the longest one.

        The last work of a queue stays there: its worker, who has prefetched the data, is about to
        begin with it.
        """
        for number, slot in enumerate(self._slots):
            while slot.ready and (not slot.doing or (slot.queue and self._ends_soon(slot))):
                longest = max(self._slots, key=lambda s: sum(work.cost for work in s.queue))
                if slot.queue:
                    work = slot.queue.popleft()
                elif len(longest.queue) > longest.ready:
                    work = longest.queue.pop()
                else:
                    break
                slot.doing.append(work)
                ref = getattr(slot.actor, work.method).remote(*work.arguments(slot.built))
                self._refs[ref] = number, work

    def _ends_soon(self, slot: _Slot) -> bool:
        return sum(self._seconds[work.method] for work in slot.doing) < SOON

    def _collect(self, done: dict[int, Report | Exception], timeout: float) -> None:
        """Take the reports that are there, replace workers that died."""
        for ref in self._wait(timeout):
            if ref not in self._refs:  # of a worker that has just died
                continue
            number, work = self._refs.pop(ref)
            slot = self._slots[number]
            try:
                result = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, LoaderKilled):
                    self._replace(number, work, cause)
                    continue
                result = cause if isinstance(cause, UserError) else error
                if work is None:
                    raise result from None
            except self.ray.exceptions.RayError as error:
                self._replace(number, work, error)
                continue
            if work is None:
                slot.ready, slot.built, slot.failures = True, result, 0
                continue
            slot.doing.remove(work)
            done[work.place] = result
            if isinstance(result, Report):
                self.memory = max(self.memory, result.memory)
                self._seconds[work.method] = result.seconds

    def _wait(self, timeout: float) -> list[Any]:
        self.check()
        refs = list(self._refs)
        ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        if not ready and timeout:
            ready, _ = self.ray.wait(refs, timeout=timeout)
        if any(slot.ready for slot in self._slots):
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > self.restart_timeout and not ready:
            wanted = ", ".join(f"{k}={v:g}" for k, v in self.resources.items())
            cluster = self.ray.cluster_resources()
            available = ", ".join(f"{n} {cluster.get(n, 0):g}" for n in ("CPU", "GPU"))
            raise WorkersLost(
                f"executor: no worker could be started within {self.restart_timeout:g} s (each "
                f"needs {wanted}; the cluster has {available}): lower these, start machines, or "
                "raise executor.restart_timeout"
            )
        return ready

    # ---------------------------------------------------------------- workers that died

    def _replace(self, number: int, work: Work | None, error: Exception) -> None:
        """Start another worker in the place of one that died, or whose loader process was killed;
        its work is to be done again."""
        time.sleep(POLL)  # a signal to the whole group may be why
        self.check()
        slot, reason = self._slots[number], describe(error)
        self.restarts.append(reason)
        blamed = work if work is not None else slot
        title = work.title if work is not None else "its start"
        self.logger.warning(f"worker {number} was lost during {title} and is replaced: {reason}")
        blamed.failures += 1
        if blamed.failures >= ATTEMPTS:
            used = f"; workers have used up to {format_bytes(self.memory)}" if self.memory else ""
            raise WorkersLost(
                f"executor: {title} has killed {ATTEMPTS} workers, the last one so: {reason}{used}."
                " If memory ran out, use fewer workers (--workers) or smaller batches"
            )
        slot.queue.extendleft(reversed(slot.doing))
        slot.doing.clear()
        self._refs = {ref: owner for ref, owner in self._refs.items() if owner[0] != number}
        self.ray.kill(slot.actor, no_restart=True)
        self._start(number)

    def close(self) -> None:
        """End all workers."""
        for slot in self._slots:
            self.ray.kill(slot.actor, no_restart=True)
        self._refs.clear()


def describe(error: Exception) -> str:
    """Why a worker died, in a line."""
    text = " ".join(str(error).split())
    detail = re.search(r"Worker exit detail: (.*)", text)
    text = detail[1] if detail else text
    return text.partition(" Some common causes")[0][:400] or type(error).__name__
