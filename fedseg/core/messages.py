"""Messages between the server and its clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class Message:
    """Sent to every participant of an exchange.

    Attributes:
        w: the parameters to start from, flat.
        buffers: the global float buffers (BatchNorm statistics), flat.
        counters: the global integer buffers, by name.
        extras: further vectors of the algorithm, for example a control variate.
        known: the participants have ``w`` from an earlier exchange of the round; it is not sent
            again.
        longest: largest norms of what is sent back, by name; ``""``: of any other vector.
    """

    w: Tensor
    buffers: Tensor
    counters: Mapping[str, Tensor] = field(default_factory=dict)
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    known: bool = False
    longest: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_vectors(self) -> int:
        """Vectors like ``w`` that are sent."""
        return len(self.extras) + (not self.known)


@dataclass
class Update:
    """Sent back by a participant: vectors like ``w``.

    After local steps one of them is ``delta``, which is ``start - w``, the direction from the
    trained model to what the client received.

    Attributes:
        vectors: by name.
        weights: what the vectors weigh in sums of the algorithm's own, by the name of the
            weighting (:class:`fedseg.core.algorithm.Algorithm`); a number each, which is no
            traffic to speak of.
        num_bytes: what the vectors take on the wire, if they are sent in another form than theirs.
    """

    vectors: dict[str, Tensor]
    weights: Mapping[str, float] = field(default_factory=dict)
    num_bytes: int | None = None


@dataclass(frozen=True)
class Task:
    """One client's work in an exchange; ``state`` is what its store holds."""

    round: int
    exchange: int
    client: int
    name: str
    num_samples: int
    num_steps: int
    state: Mapping[str, Tensor]


@dataclass
class ClientResult:
    """The result of a task.

    ``update`` and ``buffers`` may live in memory that the next client overwrites: use them before
    asking for the next result. ``norms``, of what is sent, come with the check of it.
    """

    task: Task
    update: Update
    buffers: Tensor
    counters: Mapping[str, Tensor]
    state: dict[str, Tensor]
    loss: float
    norms: dict[str, float] = field(default_factory=dict)

    def state_vectors(self) -> dict[str, Tensor]:
        """The client's own vectors that are like ``w``, by name, to be checked with the update."""
        like = next(iter(self.update.vectors.values()), None)
        if like is None:
            return {}
        return {f"state {n}": t for n, t in self.state.items() if t.shape == like.shape}


@dataclass
class Outcome:
    """The part of a result that the server needs.

    Attributes:
        num_vectors, num_bytes: of the update. norms: of what is sent, by name.
        reason: why the update is rejected, or None.
        sums: what the server adds up now, in order: results of single clients
            (:class:`ClientResult`) or sums of blocks of them (``Aggregate``).
    """

    task: Task
    state: Mapping[str, Tensor]
    loss: float
    num_vectors: int
    num_bytes: int | None
    norms: Mapping[str, float]
    reason: str | None
    sums: list[Any]
