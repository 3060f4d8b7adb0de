"""Base of the algorithms: a client rule and a server rule over flat vectors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from fedseg.core.aggregate import Aggregate, Weightings
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import LocalState
from fedseg.core.messages import Exchange, Message, Payload, Update
from fedseg.core.server import Server
from fedseg.errors import ConfigError


class Algorithm(ABC):
    """A client rule (``gradient``, ``correct``, ``finish``) and a server rule (``step``).

    The round around it is the same for all: the server broadcasts, every participant does its local
    steps, their updates are summed, the server steps. A subclass overrides what its paper changes.

    In the equations of the algorithms w is what a client received (``client.start``), w_k its own
    model (``client.w``), ``w - w_k`` its update (``delta``), N_k its number of samples, K the
    number of all clients, S the participants of the round and N their samples. Clients compute in
    the model's dtype, the server in float64.

    Attributes:
        exchanges: the broadcasts of a round, and what clients do after each; they train in the
            last one, which gives the round its losses, BatchNorm statistics and client states.
        client_vectors: names of vectors like ``w`` that each client keeps between its rounds, in
            ``client.state``; zeros at its first participation.
        own_model: name in ``client.state`` of a client's own full model, with which it is
            evaluated; None: it has none.
        server_vectors: names of vectors like ``w`` that the server keeps, in ``server.state``;
            zeros at the start; not ``delta`` or ``w``, whose norms the history has already.
        weightings: for every vector that clients send, by which weights it is summed:
            ``"samples"`` (N_k), ``"uniform"`` (1), or a name of its own, for which ``finish`` gives
            each update its weight; several as a tuple. An option may set it for an instance.
        payloads: what is exchanged besides vectors like ``w``; ``finish`` puts it into the update.
        needs_every_update: whether the server adds up every update by itself, not sums of blocks,
            because ``new_aggregate`` gives an aggregate that keeps them.
        data: the clients' data, for passes of its own; set before ``setup``.
        local_state: what stays with each client, set before ``setup``; None: nothing.
    """

    exchanges: ClassVar[tuple[Exchange, ...]] = (Exchange(),)
    client_vectors: tuple[str, ...] = ()
    own_model: ClassVar[str | None] = None
    server_vectors: tuple[str, ...] = ()
    weightings: Weightings = {"delta": "samples"}
    payloads: Sequence[Payload] = ()
    needs_every_update: ClassVar[bool] = False
    data: ClientData
    local_state: LocalState | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise ConfigError for a declaration that no round can follow."""
        super().__init_subclass__(**options)
        for name in ("client_vectors", "server_vectors"):
            if isinstance(getattr(cls, name), str):
                raise ConfigError(f"{cls.__name__}.{name}: must be a tuple of names, not a text")
        if not cls.exchanges or not all(isinstance(e, Exchange) for e in cls.exchanges):
            raise ConfigError(f"{cls.__name__}.exchanges: must be a tuple of at least one Exchange")
        training = [exchange.train for exchange in cls.exchanges]
        if any(training) and not training[-1]:
            raise ConfigError(
                f"{cls.__name__}.exchanges: clients must train in the last one, which gives a "
                "round its losses, statistics and client states, or in none"
            )

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        """Called once before training: allocate scratch vectors like ``w`` here.

        Args:
            flat: the model.
            local: the local optimizer.
            max_rounds: rounds of the run.

        Raises:
            ConfigError: the algorithm does not apply to one of them.
        """

    def broadcast(self, server: Server) -> Message:
        """The message to every participant; ``server.exchange`` counts the exchanges of a round."""
        return server.message(server.w)

    def begin(self, client: Client) -> None:
        """Called before a client's first local step, with the message and its state loaded.

        Not called in an exchange without local steps.
        """

    def gradient(self, client: Client) -> None:
        """Compute this step's gradient in ``client.grad``; by default the local optimizer's."""
        client.local.gradient(client)

    def correct(self, client: Client) -> None:
        """Change ``client.grad`` in place before the optimizer's step, at the unperturbed ``w``."""

    def after_step(self, client: Client) -> None:
        """Called after each step of the optimizer."""

    def finish(self, client: Client) -> Update:
        """Update ``client.state`` and return what is sent.

        Called once in every exchange, after the local steps if it has any.
        """
        return Update({"delta": client.delta()})

    def load(self, payloads: Mapping[str, Tensor]) -> None:
        """Set frozen weights of the model that follow from broadcast payloads.

        Called before an evaluation on a worker, with the payloads of the next message.
        """

    def new_aggregate(self) -> Aggregate:
        """The aggregate of an exchange, without an update yet."""
        return Aggregate(self.weightings)

    def metrics(self, server: Server) -> dict[str, float]:
        """Figures of the finished round for the history, by name; not by one that it has already.

        By default ``norm_<name>`` of every vector that the server keeps: one that grows from round
        to round is a correction that diverges.
        """
        norms = {}
        for name in self.server_vectors:
            vector = server.state.get(name)
            if isinstance(vector, Tensor):
                norms[f"norm_{name}"] = float(vector.norm())
        return norms

    @abstractmethod
    def step(self, server: Server, aggregate: Aggregate) -> None:
        """Change ``server.w`` and ``server.state`` with the sums of an exchange's updates."""


class AggregationRule:
    """How the updates of an exchange are summed; this one: as the algorithm declares.

    Attributes:
        needs_every_update: as in :class:`Algorithm`.
        may_be_empty: a round in which no update counts is one like any other.
    """

    needs_every_update = False
    may_be_empty = False

    def new_aggregate(self, algorithm: Algorithm) -> Aggregate:
        """The aggregate of an exchange, without an update yet."""
        return algorithm.new_aggregate()


def uses_full_gradient(algorithm: Algorithm) -> bool:
    """True if clients compute full-batch gradients in some exchange."""
    return any(exchange.full_gradient for exchange in algorithm.exchanges)
