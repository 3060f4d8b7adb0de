"""Messages between the server and its clients."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor


@dataclass(frozen=True)
class Payload:
    """A tensor that an algorithm, a local loss or a hook exchanges besides vectors like ``w``.

    Attributes:
        name: in ``Update.payloads``, ``Message.payloads`` and ``Server.state``.
        shape: of the tensor; ``"classes"`` in it is the data set's number of classes, ``"clients"``
            that of all clients; None: that of ``w``.
        broadcast: whether the server keeps a tensor of the name, zeros at first, and sends it with
            every message; else it is only sent upward.

    What clients send is summed, without weights; a mean is the quotient of two payloads, such as
    the sums and the counts of every class.
    """

    name: str
    shape: tuple[NonNegativeInt | Literal["classes", "clients"], ...] | None = None
    broadcast: bool = False

    def sizes(self, w: Tensor) -> tuple[int, ...]:
        """The shape of the tensor, once its names have been replaced by numbers."""
        if self.shape is None:
            return tuple(w.shape)
        return tuple(int(size) for size in self.shape)


@dataclass(frozen=True)
class Exchange:
    """One broadcast of a round, and what every participant does before it answers.

    Attributes:
        train: do local steps.
        full_gradient: first compute the full-batch gradient at what it received; it is in
            ``client.full_gradient``.
        gradients: gradients that a local step takes; its forward-backward passes are that many
            times those of the local optimizer's gradient.
    """

    train: bool = True
    full_gradient: bool = False
    gradients: PositiveInt = 1


NUMBER_BYTES = 8  # a number on the wire


def num_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors on the wire."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True)
class Size:
    """Size of a message or update besides buffers.

    Personal parameters and gaps are not sent. A client's message counts tensors like ``w``
    therefore, and :meth:`Server.traffic` multiplies them by the number of shared parameters.

    Attributes:
        vectors: number of vectors like ``w``.
        vector_bytes: bytes of these vectors, if they are sent in another form; None: they are not.
        other_bytes: bytes of numbers and of tensors of other shapes.
        payload_bytes_per_parameter: bytes of an element of each payload like ``w``, added up.
    """

    vectors: int = 0
    vector_bytes: int | None = None
    other_bytes: int = 0
    payload_bytes_per_parameter: int = 0


@dataclass
class Message:
    """Sent to every participant of an exchange.

    Attributes:
        w: the parameters to start from, flat; in one process the server's own tensor, which no
            client may change.
        buffers: the global float buffers (BatchNorm statistics), flat.
        counters: the global integer buffers, flat.
        extras: further tensors of the algorithm, for example a control variate;
            ``client.extras`` by name.
        payloads: the server's values of broadcast payloads, by name.
        numbers: by name, one for each client, in partition order; a client receives its own.
        w_is_known: the participants have ``w`` from an earlier exchange of the round: neither it
            nor payloads and buffers count as traffic again.
        norm_limits: largest allowed norms of what is sent back, by name; ``""``: of other vectors.
    """

    w: Tensor
    buffers: Tensor
    counters: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    w_is_known: bool = False
    norm_limits: Mapping[str, float] = field(default_factory=dict)
    payloads: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        """The size of the message to a client."""
        extras = self.extras.values()
        vectors = sum(tensor.shape == self.w.shape for tensor in extras)
        payloads: list[Tensor] = []
        if not self.w_is_known:
            vectors += 1
            payloads += self.payloads.values()
        return Size(
            vectors=vectors,
            other_bytes=_bytes_of_other_shapes(self.w.shape, [*extras, *payloads], self.numbers),
            payload_bytes_per_parameter=_bytes_per_parameter(self.w.shape, payloads),
        )


@dataclass
class Update:
    """Sent back by a participant: vectors like ``w``.

    After local steps one of them is ``delta``, which is ``start - w``, the direction from the
    trained model to what the client received. Numbers are figures of a client that the server sees
    for each client; payloads are tensors of which it sees the sum.

    Attributes:
        vectors: by name.
        weights: the update's weights for the algorithm's own weightings, by name
            (``Algorithm.weightings``).
        num_bytes: size of the vectors on the wire, if they are sent in another form.
        payloads: declared ones (:class:`Payload`) by name; what is left out is not sent.
        numbers: by name; the server has them by client, in ``Aggregate.numbers``.
    """

    vectors: dict[str, Tensor]
    weights: Mapping[str, float] = field(default_factory=dict)
    num_bytes: int | None = None
    payloads: dict[str, Tensor] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    def size(self, shape: torch.Size) -> Size:
        """The size of the update, where vectors have this shape."""
        payloads = self.payloads.values()
        return Size(
            vectors=len(self.vectors),
            vector_bytes=self.num_bytes,
            other_bytes=_bytes_of_other_shapes(shape, payloads, self.numbers),
            payload_bytes_per_parameter=_bytes_per_parameter(shape, payloads),
        )


@dataclass(frozen=True)
class Task:
    """One client's work in an exchange, whoever trains it; its batches are those of a ``Job``.

    Attributes:
        round: from 1.
        exchange: the exchange of the round, from 0.
        client: its position in the partition.
        name: its name there.
        num_samples: N_k.
        num_steps: local steps K_k.
        state: what it keeps between its rounds, by name.
    """

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

    ``update``, ``buffers`` and ``counters`` may be in memory that the next client overwrites: use
    them before asking for the next result.

    Attributes:
        task: what the client had to do.
        update: what it sends.
        buffers: its float buffers, flat.
        counters: its integer buffers, flat.
        state: what it keeps until its next round, by name.
        loss: mean loss over its local steps.
    """

    task: Task
    update: Update
    buffers: Tensor
    counters: Tensor
    state: dict[str, Tensor]
    loss: float


def _bytes_of_other_shapes(
    shape: torch.Size, tensors: Iterable[Tensor], numbers: Mapping[str, object]
) -> int:
    """Bytes of numbers, and of tensors that have another shape than ``w``."""
    others = [tensor for tensor in tensors if tensor.shape != shape]
    return num_bytes(others) + NUMBER_BYTES * len(numbers)


def _bytes_per_parameter(shape: torch.Size, payloads: Iterable[Tensor]) -> int:
    """Bytes of an element of each payload that has the shape of ``w``, added up."""
    return sum(payload.element_size() for payload in payloads if payload.shape == shape)
