"""The clients of each worker: a pure function, so that workers know theirs in advance.

The participants of a round form blocks of clients in ascending order, whose updates are summed by
whoever trains them (:func:`fedseg.engine.executor.block_size`). Whole blocks go to workers.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fedseg.core.client_data import Job, JobStream

Clients = tuple[int, ...]
Block = tuple[int, int, Clients]  # round, exchange, clients


def cut(participants: Sequence[int], size: int) -> list[Clients]:
    """Participants in blocks of ``size``, in order; no blocks of nobody, whatever the size."""
    starts = range(0, len(participants), size) if participants else ()
    return [tuple(participants[i : i + size]) for i in starts]


def assign(costs: Sequence[float], workers: int) -> list[list[int]]:
    """Longest processing time first: positions in ``costs`` for each worker, ascending.

    A worker goes through its share in ascending order, so that the server, which adds blocks in
    that order, keeps few of them waiting.
    """
    shares: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]
    for position in sorted(range(len(costs)), key=lambda p: (-costs[p], p)):
        load, worker = heapq.heappop(loads)
        shares[worker].append(position)
        heapq.heappush(loads, (load + costs[position], worker))
    return [sorted(share) for share in shares]


def speed_up(costs: Sequence[float], workers: int) -> float:
    """How many times as fast a round trains, if every worker is as fast as one alone."""
    longest = max(sum(costs[p] for p in share) for share in assign(costs, workers))
    return sum(costs) / longest if longest else 1.0


@dataclass(frozen=True)
class WorkerJobs(JobStream):
    """The jobs of one worker from a block on, in the order in which it will be asked for them.

    Args:
        participants, first, last, passes: as :class:`JobStream`.
        share: round -> the worker's own blocks.
        begin: the block to begin with, its own or one that it took over; None: the first own one.
        done: blocks of that exchange that it trained before.
    """

    share: Callable[[int], list[Clients]] | None = None
    begin: Block | None = None
    done: frozenset[Clients] = frozenset()

    def blocks(self) -> Iterator[Block]:
        """The blocks."""
        now = self.begin[:2] if self.begin else (self.first, 0)
        if self.begin:
            yield self.begin
        for round_ in range(now[0], self.last + 1):
            share = self.share(round_)
            for exchange in range(len(self.passes)):
                if (round_, exchange) < now:
                    continue
                for clients in share:
                    if (round_, exchange) != now or clients not in self.done:
                        yield round_, exchange, clients

    def __iter__(self) -> Iterator[Job]:
        for round_, exchange, clients in self.blocks():
            for client in clients:
                for full in self.passes[exchange]:
                    yield Job(round_, exchange, client, full)
