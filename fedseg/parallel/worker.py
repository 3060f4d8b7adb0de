"""A worker: it builds its trainer from the config alone, and keeps it for the run.

The participants of a round form blocks of clients in ascending order, whose updates are summed by
whoever trains them (:func:`fedseg.engine.executor.block_size`). Which worker trains a block is a
function of the round alone, so that each knows its own in advance.
"""

import heapq
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from logging import getLogger
from types import SimpleNamespace
from typing import Any

import cv2
import torch
from mmengine.config import Config
from torch import Tensor

from fedseg.core.aggregate import Outcome
from fedseg.core.client_data import Job, JobStream, client_jobs
from fedseg.core.messages import Message, Task, Update
from fedseg.engine.executor import block_size, train_block
from fedseg.errors import (
    DataError,
    LoaderKilled,
    ResourceError,
    is_lost_loader,
    is_system_error,
    system_message,
)
from fedseg.evaluation.tasks import EvalTask
from fedseg.loaders.workers import SIGNALS
from fedseg.memory import map_tensors
from fedseg.parallel.ray_start import serialize_tensors
from fedseg.runner.build import build_evaluation, build_trainer
from fedseg.runner.sampler import build_sampler
from fedseg.units import peak_memory

Clients = tuple[int, ...]
Block = tuple[int, int, Clients]  # round, exchange, clients
# what an exchange's participants receive; options of the local optimizer's groups, as scheduled
Order = tuple[Message, Sequence[Mapping[str, Any]]]


def cut(participants: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
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


@dataclass(frozen=True)
class WorkerJobs(JobStream):
    """The jobs of one worker from a block on, in the order in which it will be asked for them.

    Args:
        participants, first, last, exchanges: as :class:`JobStream`.
        share: round -> the worker's own blocks, ascending.
        begin: the block to begin with.
    """

    share: Callable[[int], list[Clients]] | None = None
    begin: Block = (1, 0, ())

    def blocks(self) -> Iterator[Block]:
        """Yield the worker's blocks."""
        for round_ in range(self.begin[0], self.last + 1):
            share = self.share(round_)
            for exchange in range(len(self.exchanges)):
                for clients in share:
                    block = (round_, exchange, clients)
                    if block >= self.begin:
                        yield block

    def __iter__(self) -> Iterator[Job]:
        for round_, number, clients in self.blocks():
            for client in clients:
                yield from client_jobs(self.exchanges[number], round_, number, client)


@dataclass(frozen=True)
class Report:
    """The result of a piece of work.

    Attributes:
        seconds: that it took, ``waiting`` of them for data.
        memory: the process's peak, bytes.
    """

    value: Any
    seconds: float
    waiting: float
    memory: int


def _naming_lacks(method: Callable) -> Callable:
    """The method; for an error of the system its message says where: of that, no type is left."""

    @wraps(method)
    def call(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            if not is_system_error(error):
                raise
            message = f"a worker on {platform.node()}: {system_message(error)}"
            kind = LoaderKilled if is_lost_loader(error) else ResourceError
            raise kind(message) from error

    return call


class Worker:
    """Trains blocks of clients and evaluates parts of test sets; Ray makes an actor of it.

    Hooks on clients and the evaluation see a run with ``round``, the model, the algorithm, the data
    and the local optimizer; the server, the stores and the loops stay with the driver.
    """

    @_naming_lacks
    def build(
        self,
        config: dict[str, Any],
        place: tuple[str, list[str]],
        share: tuple[int, int],
        threads: int,
        checksum: str,
    ) -> None:
        """Build everything that trains clients.

        Args:
            config: the composed config.
            place: the driver's current folder, and the folders where it finds modules.
            share: this worker's number, from 0, and how many there are.
            threads: for arithmetic on the CPU.
            checksum: of the driver's training data.
        """
        for number in SIGNALS:  # the driver ends its workers itself
            signal.signal(number, signal.SIG_IGN)
        serialize_tensors()
        folder, paths = place
        self.number, self.workers = share
        worker = f"worker {self.number} on {platform.node()}"
        if not os.path.isdir(folder):
            raise DataError(
                f"executor: {worker} does not see {folder}: give every machine this folder"
            )
        os.chdir(folder)
        # the main process' order: a module of one's own may have the name of an installed one
        sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
        self.cfg = Config(config)
        self.run = run = SimpleNamespace(round=0, logger=getLogger("fedseg"))
        run.interrupt = SimpleNamespace(check=lambda: None)
        run.call_hook = lambda stage, **arguments: None
        self.trainer = trainer = build_trainer(self.cfg, run)
        if trainer.data.checksum() != checksum:
            raise DataError(
                f"train_dataloader: {worker} has other clients or images than the main process: "
                "give every machine the same data"
            )
        run.trainer = trainer
        run.flat = trainer.flat
        run.model = trainer.model
        run.data = trainer.data
        run.held_out = getattr(trainer.data, "held_out", {})
        run.domain_clients = trainer.data.clients_by_domain()
        run.algorithm = trainer.algorithm
        run.optim_wrapper = trainer.local
        run.local_state = trainer.local_state
        run.autocast = trainer.autocast
        run.max_rounds = self.cfg.train_cfg.max_rounds
        run.client_sampler = build_sampler(
            self.cfg.client_sampler, trainer.data.clients, trainer.seed
        )
        self._loop: Any = None
        self._received: tuple[tuple[int, int], Message] | None = None
        self._plan: Iterator[Block] = iter(())  # blocks to come, as their data stream does

    @_naming_lacks
    def train(self, tasks: list[Task], order: Order) -> Report:
        """Train a block of clients; their outcomes: the last one has the sums of the block."""
        begin = time.perf_counter()
        waited = self.trainer.data.seconds_waiting
        message = self._receive(tasks[0], order)
        self._align(tasks)
        outcomes = []
        for outcome in train_block(self.trainer, tasks, message):
            outcomes.append(_to_send(outcome, is_last=outcome.task is tasks[-1]))
        return self._report(begin, outcomes, self.trainer.data.seconds_waiting - waited)

    def _report(self, begin: float, value: Any, waiting: float = 0.0) -> Report:
        return Report(value, time.perf_counter() - begin, waiting, peak_memory() or 0)

    def _receive(self, task: Task, order: Order) -> Message:
        """The message on the model's device; what depends on the round is set."""
        when = task.round, task.exchange
        if self._received is None or self._received[0] != when:
            if self.run.round != task.round:
                self.run.round = task.round
                self.trainer.local.start_round(task.round)
            message, groups = order
            ours = self.trainer.local.optimizer.param_groups
            for group, options in zip(ours, groups, strict=True):
                group.update(options)
            device = self.trainer.flat.w.device
            parts = map_tensors(lambda tensor: tensor.to(device), vars(message))
            self._received = when, Message(**parts)
        return self._received[1]

    def _align(self, tasks: list[Task]) -> None:
        """Let the data stream go on with this block: as planned, or anew from it."""
        clients = tuple(task.client for task in tasks)
        block = (tasks[0].round, tasks[0].exchange, clients)
        if next(self._plan, None) == block:
            return
        jobs = WorkerJobs(
            participants=self.run.client_sampler.participants,
            first=block[0],
            last=self.run.max_rounds,
            exchanges=self.trainer.algorithm.exchanges,
            share=self._share,
            begin=block,
        )
        self._plan = jobs.blocks()
        next(self._plan)
        self.trainer.data.start(jobs)

    def _share(self, round_: int) -> list[Clients]:
        data = self.trainer.data
        participants = self.run.client_sampler.participants(round_)
        blocks = cut(participants, block_size(len(participants), self.trainer))
        costs = [sum(data.num_steps(client) for client in block) for block in blocks]
        return [blocks[number] for number in assign(costs, self.workers)[self.number]]

    @_naming_lacks
    def count(
        self, name: str, part: EvalTask, model: tuple[Tensor, Tensor, Mapping[str, Tensor]]
    ) -> Report:
        """Predict a part of a test set of the evaluation between rounds; what its metrics count.

        ``model`` has the parameters and buffers, which the part lacks, and the payloads of the
        next message.
        """
        begin = time.perf_counter()
        self.trainer.algorithm.load(model[2])
        if self._loop is None:
            self._loop = build_evaluation(self.cfg, "val", self.run)
        test = next(test for test in self._loop.sets if test.name == name)
        counts = self._loop.domains.count(test, replace(part, w=model[0], buffers=model[1]))
        return self._report(begin, counts)


@torch.no_grad()
def _to_send(outcome: Outcome, is_last: bool) -> Outcome:
    """The outcome without the state that the driver has.

    Copied, if it is not the last of a block: the next client's tensors may lie where these do.
    """
    copied = partial(map_tensors, Tensor.detach if is_last else Tensor.clone)
    task = replace(outcome.task, state={})
    state = copied(outcome.state)
    result = outcome.result
    if result is not None:
        result = replace(
            result,
            task=task,
            state={},
            update=Update(**copied(vars(result.update))),
            buffers=copied(result.buffers),
            counters=copied(result.counters),
        )
    return replace(outcome, task=task, state=state, result=result)
