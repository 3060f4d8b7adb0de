"""Where clients run: an executor takes an exchange's tasks and yields results in client order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from fedseg.core.messages import ClientResult, Message, Task
from fedseg.engine.trainer import ClientTrainer
from fedseg.registry import EXECUTORS


class Executor(ABC):
    """Runs clients. Whatever it does inside, results come in ascending client order, same bits."""

    def bind(self, trainer: ClientTrainer) -> None:
        """Give the executor what trains a client."""
        self.trainer = trainer

    @abstractmethod
    def run(self, tasks: list[Task], message: Message) -> Iterator[ClientResult]:
        """Yield the result of each task in ascending order of ``task.client``.

        Args:
            tasks: the participants of an exchange.
            message: what each of them receives.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what the executor holds."""


@EXECUTORS.register_module()
class InProcessExecutor(Executor):
    """One client after another in this process, all in the same model."""

    def run(self, tasks: list[Task], message: Message) -> Iterator[ClientResult]:
        for task in tasks:
            yield self.trainer.train(task, message)
