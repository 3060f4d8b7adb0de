"""Running clients, and summing their updates by blocks, whoever trains them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from fedseg.core.algorithm import Algorithm
from fedseg.core.client_data import Job
from fedseg.core.messages import Message, Outcome, Task
from fedseg.core.server import Aggregate
from fedseg.engine.trainer import ClientTrainer
from fedseg.engine.updates import validate_update
from fedseg.registry import EXECUTORS

MAX_BLOCKS = 128


def block_size(participants: int, algorithm: Algorithm) -> int:
    """Participants whose updates are summed before the server sees them.

    A function of their number alone: the bits of a sum must not depend on who computes it.
    """
    single = algorithm.aggregate.single_updates or not participants
    return 1 if single else -(-participants // MAX_BLOCKS)


def train_block(trainer: ClientTrainer, tasks: list[Task], message: Message) -> Iterator[Outcome]:
    """Train the clients of a block in turn, check their updates and sum up those that count.

    An update alone in its block stays as it is: half the size of its weighted sum in float64.
    """
    sums = Aggregate(trainer.algorithm.weightings)
    trained = trainer.algorithm.trains(tasks[0].exchange)
    for task in tasks:
        result = trainer.train(task, message)
        reason = validate_update(result, message, trained, trainer.algorithm.weightings)
        parts = [result] if reason is None else []
        if len(tasks) > 1:
            sums.add(*parts)
            parts = [sums] if task is tasks[-1] and sums.num_clients else []
        size, norms = result.update.size(message.w.shape), result.norms
        yield Outcome(task, result.state, result.loss, size, norms, reason, parts)


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

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release the executor's resources."""


@EXECUTORS.register_module()
class InProcessExecutor(Executor):
    """One client after another in this process, all in the same model."""

    def start(self, jobs: Iterable[Job]) -> None:
        self.trainer.data.start(jobs)

    def run(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        size = block_size(len(tasks), self.trainer.algorithm)
        for first in range(0, len(tasks), size):
            yield from train_block(self.trainer, tasks[first : first + size], message)
