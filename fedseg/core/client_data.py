"""The clients' training data as a round sees them: jobs, and the batches of each.

Everything is known in advance: participants, shuffles and augmentations are pure functions of the
seed and of (round, client, epoch). How the batches are made is the loaders' subject.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedseg.core.messages import Exchange
from fedseg.errors import ConfigError


@dataclass(frozen=True)
class Job:
    """One client's pass over its data in one exchange of one round.

    It names the batches, also of a later round, to the loader, as a
    :class:`~fedseg.core.messages.Task` names the work, with the client's state, to the trainer.

    Attributes:
        round: from 1.
        exchange: of the round, from 0.
        client: its position in the partition.
        full: one pass over all its samples for the full-batch gradient, instead of local steps.
        steps: another number of local steps than the configured one.
    """

    round: int
    exchange: int
    client: int
    full: bool = False
    steps: int | None = None


def client_jobs(exchange: Exchange, round_: int, number: int, client: int) -> Iterator[Job]:
    """The passes of one client over its data in exchange ``number`` of a round, in their order."""
    if exchange.full_gradient:
        yield Job(round_, number, client, full=True)
    if exchange.train:
        yield Job(round_, number, client)


class ClientData(ABC):
    """The clients' training data: their sizes, and the batches of a job.

    Attributes:
        clients: client ids in partition order; a client's position is its index everywhere.
        sizes: samples of each client.
        fits_model: whether batches come on the model's device and in its floating point type.
        seconds_waiting: time that training has waited for batches so far.
    """

    clients: list[str]
    sizes: list[int]
    fits_model: bool = False
    seconds_waiting: float = 0.0

    @abstractmethod
    def num_steps(self, client: int) -> int:
        """Local steps of one client in one round, over all its local epochs."""

    def full_sizes(self, client: int) -> list[int]:
        """Sizes of the batches of one pass over all samples of a client; some algorithms need it.

        Raises:
            ConfigError: this data does not support such passes.
        """
        raise ConfigError(
            f"train_dataloader.type: {type(self).__name__} has no full_sizes(), which an algorithm "
            "with full-batch gradients needs"
        )

    def start(self, jobs: Iterable[Job]) -> None:
        """Start streaming the batches of these jobs, in this order."""

    @abstractmethod
    def batches(self, job: Job) -> Iterator[Any]:
        """The batches of the next job of the stream, which must be ``job``."""

    def close(self) -> None:
        """Release workers."""


@dataclass(frozen=True)
class JobStream:
    """The jobs of all rounds from ``first`` on, in training order; starts anew at every ``iter``.

    Args:
        participants: round -> client positions.
        first: first round, 1-based.
        last: last round, included.
        exchanges: of a round.
    """

    participants: Callable[[int], list[int]]
    first: int
    last: int
    exchanges: Sequence[Exchange] = (Exchange(),)

    def __iter__(self) -> Iterator[Job]:
        for round_ in range(self.first, self.last + 1):
            participants = self.participants(round_)
            for number, exchange in enumerate(self.exchanges):
                for client in participants:
                    yield from client_jobs(exchange, round_, number, client)
