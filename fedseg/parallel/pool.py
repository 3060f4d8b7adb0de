"""Workers that are replaced when they die, and work that is done again elsewhere."""

import math
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
LATE = 0.25  # of the time that work should take
SOON = 0.1  # seconds


@dataclass(eq=False)
class Work:
    """A call of a worker's method.

    Attributes:
        worker: who should do it. method: to call.
        arguments: gives those of the call, from what the worker's :meth:`Worker.build` gave.
        title: what it is, for messages. cost: proportional to time among calls of the method.
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
    """A worker: the present actor, what it does and since when, and what it is to do.

    Attributes:
        ready: whether the actor is built. built: what that gave.
        failures: how often it died before that, in a row.
        doing: what it is asked for: one work, or some that end soon.
    """

    actor: Any = None
    ready: bool = False
    built: Any = None
    doing: deque[Work] = field(default_factory=deque)
    since: float = 0.0
    queue: deque[Work] = field(default_factory=deque)
    failures: int = 0


class Pool:
    """Workers, one actor each.

    Args:
        workers: how many.
        resources: of each, as Ray's actors take them (``num_cpus``, ``num_gpus``).
        arguments: gives the arguments of :meth:`Worker.build` for a worker's number.
        check: called while waiting; raises to stop.
        restart_timeout: seconds without any worker after which to give up.

    Attributes:
        restarts: workers that were replaced so far, by reason.
        in_flight: calls that are being done.
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
        self.restart_timeout = restart_timeout
        self.resources = resources
        self.restarts: list[str] = []
        self.memory = 0
        # method -> seconds and cost of what is done
        self._rate: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        # what is waited for -> worker and work; None: its start
        self._refs: dict[Any, tuple[int, Work | None]] = {}
        self._alone_since = time.monotonic()
        self._actor = ray.remote(Worker).options(max_restarts=0, **resources)
        self._slots = [_Slot() for _ in range(workers)]
        for number in range(workers):
            self._start(number)

    @property
    def in_flight(self) -> int:
        return sum(bool(slot.doing) for slot in self._slots)

    def _start(self, number: int) -> None:
        slot = self._slots[number]
        slot.actor, slot.ready = self._actor.remote(), False
        self._refs[slot.actor.build.remote(*self.arguments(number))] = number, None

    # ---------------------------------------------------------------- doing work

    def run(self, works: Iterable[Work], ahead: int | None = None) -> Iterator[list[Report]]:
        """Do all of it; yields what comes out, in the order of ``works``, all that is there.

        Args:
            works: what to do.
            ahead: take so many from ``works`` at a time; None: all of it.

        Raises:
            WorkersLost: see :class:`Pool`; or workers died of the same work three times.
            UserError: as the worker raised it.
        """
        works, taken, given = iter(works), 0, 0
        done: dict[int, Any] = {}
        exhausted = False
        try:
            while True:
                while not exhausted and (ahead is None or taken - given - len(done) < ahead):
                    work = next(works, None)
                    exhausted = work is None
                    if work is not None:
                        work.place, taken = taken, taken + 1
                        self._slots[work.worker].queue.append(work)
                self._submit()
                if given in done:
                    self._collect(done, 0)  # workers must not wait for who takes what comes out
                    self._submit()
                    found = []
                    while isinstance(done.get(given), Report):
                        found.append(done.pop(given))
                        given += 1
                    if not found:
                        raise done[given]
                    yield found
                elif exhausted and given == taken:
                    return
                else:
                    self._collect(done, POLL)
        finally:
            for slot in self._slots:
                slot.queue.clear()

    def _submit(self) -> None:
        """Give every idle worker something to do: of its own, else of one who is late."""
        for number, slot in enumerate(self._slots):
            while slot.ready and (not slot.doing or (slot.queue and self._ends_soon(slot))):
                source = slot if slot.queue else self._late()
                if source is None:
                    break
                work = slot.queue.popleft() if source is slot else source.queue.pop()
                if not slot.doing:
                    slot.since = time.monotonic()
                slot.doing.append(work)
                ref = getattr(slot.actor, work.method).remote(*work.arguments(slot.built))
                self._refs[ref] = number, work

    def _seconds(self, work: Work) -> float:
        seconds, cost = self._rate[work.method]
        return work.cost * seconds / cost if cost else math.inf

    def _ends_soon(self, slot: "_Slot") -> bool:
        """Whether a worker would be idle before it is asked for what it has done."""
        return sum(map(self._seconds, slot.doing)) < SOON

    def _late(self) -> "_Slot | None":
        """The worker with the most to do that will not begin with it as soon as an idle one."""
        waiting = [s for s in self._slots if s.queue and self._is_late(s)]
        return max(waiting, key=lambda s: sum(w.cost for w in s.queue), default=None)

    def _is_late(self, slot: "_Slot") -> bool:
        if not slot.ready:
            return True
        needs = sum(map(self._seconds, slot.doing))
        return needs < math.inf and abs(needs - (time.monotonic() - slot.since)) > LATE * needs

    def _collect(self, done: dict[int, Any], timeout: float) -> None:
        """Take what has come out, replace workers that died."""
        for ref in self._wait(timeout):
            if ref not in self._refs:  # of a worker that has just died
                continue
            number, work = self._refs.pop(ref)
            slot = self._slots[number]
            try:
                found = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, LoaderKilled):
                    self._replace(number, work, cause)
                    continue
                found = cause if isinstance(cause, UserError) else error
                if work is None:
                    raise found from None
            except self.ray.exceptions.RayError as error:
                self._replace(number, work, error)
                continue
            if work is None:
                slot.ready, slot.built, slot.failures = True, found, 0
                continue
            slot.doing.remove(work)
            slot.since = time.monotonic()
            if isinstance(found, Report):
                self.memory = max(self.memory, found.memory)
                seconds, cost = self._rate[work.method]
                self._rate[work.method] = seconds + found.seconds, cost + work.cost
            done[work.place] = found

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
            raise WorkersLost(
                f"executor: no worker could be started within {self.restart_timeout:g} s (each "
                f"needs {wanted}; the cluster has {self._available()}): lower these, start "
                "machines, or raise executor.restart_timeout"
            )
        return ready

    def _available(self) -> str:
        found = self.ray.cluster_resources()
        return ", ".join(f"{n} {found.get(n, 0):g}" for n in ("CPU", "GPU"))

    # ---------------------------------------------------------------- workers that died

    def _replace(self, number: int, work: Work | None, error: Exception) -> None:
        """Start another worker in the place of one that died, or whose loader process was killed;
        its work is to be done again."""
        time.sleep(POLL)  # a signal to the whole group may be why
        self.check()
        slot, reason = self._slots[number], describe(error)
        self.restarts.append(reason)
        blamed = work if work is not None else slot
        what = work.title if work is not None else "its start"
        self.logger.warning(f"worker {number} was lost during {what} and is replaced: {reason}")
        blamed.failures += 1
        if blamed.failures >= ATTEMPTS:
            used = f"; workers have used up to {format_bytes(self.memory)}" if self.memory else ""
            raise WorkersLost(
                f"executor: {what} has killed {ATTEMPTS} workers, the last one so: {reason}{used}. "
                "If memory ran out, use fewer workers (--workers) or smaller batches"
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
