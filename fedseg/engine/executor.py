"""Running clients, and summing their updates by blocks, whoever trains them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from fedseg.core.aggregate import Outcome
from fedseg.core.client_data import Job
from fedseg.core.messages import ClientResult, Message, Task
from fedseg.engine.trainer import ClientTrainer
from fedseg.engine.validation import check_contract, find_update_fault, measure_norms
from fedseg.registry import EXECUTORS

MAX_BLOCKS = 128


def block_size(participants: int, trainer: ClientTrainer) -> int:
    """Participants whose updates are summed before the server sees them.

    A function of their number alone: the bits of a sum must not depend on who computes it.
    """
    if trainer.needs_every_update or participants == 0:
        return 1
    return math.ceil(participants / MAX_BLOCKS)


def train_block(trainer: ClientTrainer, tasks: list[Task], message: Message) -> Iterator[Outcome]:
    """Train the clients of a block in turn, and check and sum their updates.

    The outcome of the last client carries the sums of the block. A client alone in its block
    carries its update as it is: half the size of its weighted sum in float64.
    """
    if len(tasks) == 1:
        result, outcome = _train_and_check(trainer, tasks[0], message)
        if outcome.reason is None:
            outcome.result = result
        yield outcome
        return
    block = trainer.algorithm.new_aggregate()
    for task in tasks:
        result, outcome = _train_and_check(trainer, task, message)
        if outcome.reason is None:
            block.add(result)
        if task is tasks[-1] and block.num_clients:
            outcome.block = block
        yield outcome


def _train_and_check(
    trainer: ClientTrainer, task: Task, message: Message
) -> tuple[ClientResult, Outcome]:
    """Train a client; returns its result, and what the server is told of it."""
    result = trainer.train(task, message)
    if task.exchange not in trainer.checked_exchanges:
        check_contract(result, message, trainer.algorithm, trainer.payloads)
        trainer.checked_exchanges.add(task.exchange)
    norms = measure_norms(result)
    outcome = Outcome(
        task=task,
        state=result.state,
        loss=result.loss,
        size=result.update.size(message.w.shape),
        norms=norms,
        reason=find_update_fault(result, norms, message.norm_limits),
    )
    return result, outcome


class Executor(ABC):
    """Runs clients. Outcomes come in ascending client order, bit-exact for every executor."""

    def bind(self, run: Any) -> None:
        """Called once with the :class:`fedseg.core.hook.Run`, which has its ``trainer`` by then."""
        self.trainer: ClientTrainer = run.trainer

    @abstractmethod
    def start(self, jobs: Iterable[Job]) -> None:
        """Prepare for the clients' passes over their data in all remaining rounds."""

    @abstractmethod
    def run(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        """Yield the outcome of every participant of an exchange, in the order of the tasks."""

    def close(self) -> None:
        """Release the executor's resources."""


@EXECUTORS.register_module()
class InProcessExecutor(Executor):
    """One client after another in this process, all in the same model."""

    def start(self, jobs: Iterable[Job]) -> None:
        self.trainer.data.start(jobs)

    def run(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        size = block_size(len(tasks), self.trainer)
        for first in range(0, len(tasks), size):
            yield from train_block(self.trainer, tasks[first : first + size], message)
