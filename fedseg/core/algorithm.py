"""Base of the algorithms: a client rule and a server rule over flat vectors."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Payload, Update
from fedseg.core.server import Aggregate, Server


class Algorithm:
    """A client rule (``gradient``, ``correct``, ``finish``) and a server rule (``step``).

    The round around it is the same for all: the server broadcasts, every participant does its local
    steps, their updates are summed, the server steps. A subclass overrides what its paper changes.

    Attributes:
        exchanges: broadcasts and answers in a round.
        training: the exchanges (from 0) in which clients do local steps; None: all.
        full_gradient: the exchanges in which each client first computes its full-batch gradient at
            what it received; it is in ``client.full_gradient``.
        client_vectors: names of vectors like ``w`` that each client keeps between its rounds, in
            ``client.state``; zeros at its first participation.
        own_model: name in ``client.state`` of a client's own full model, with which it is
            evaluated; None: it has none.
        server_vectors: names of vectors like ``w`` that the server keeps, in ``server.state``;
            zeros at the start.
        weightings: how the updates are summed: ``"samples"`` (weights N_k; always among them),
            ``"uniform"`` (1), or a name of its own, for which ``finish`` gives each update its
            weight.
        payloads: what is exchanged besides vectors like ``w``; ``finish`` puts it into the update.
        aggregate: the class that sums up the updates; a run may have another (``robust``).
        data: the clients' data, for passes of its own.
        gradients: gradients that a local step takes; its forward-backward passes are that many
            times those of the local optimizer's gradient.
    """

    exchanges: ClassVar[int] = 1
    training: ClassVar[tuple[int, ...] | None] = None
    full_gradient: ClassVar[tuple[int, ...]] = ()
    client_vectors: ClassVar[tuple[str, ...]] = ()
    own_model: ClassVar[str | None] = None
    server_vectors: ClassVar[tuple[str, ...]] = ()
    weightings: ClassVar[tuple[str, ...]] = ("samples",)
    payloads: Sequence[Payload] = ()
    aggregate: Any = Aggregate
    data: Any = None
    gradients: ClassVar[int] = 1

    def bind(self, flat: FlatModel) -> None:
        """Called once with the model's vectors; allocate scratch vectors like ``w`` here."""

    def check(self, local: LocalOptimizer, flat: FlatModel) -> None:
        """Raise ConfigError for a local optimizer or a model that this algorithm cannot use."""

    def check_rounds(self, max_rounds: int) -> None:
        """Raise ConfigError for a schedule that does not fit the rounds of the run."""

    def trains(self, exchange: int) -> bool:
        """True if clients do local steps in an exchange."""
        return self.training is None or exchange in self.training

    def passes(self) -> list[list[bool]]:
        """For every exchange, a client's passes over its data: full gradient (True), steps."""
        return [
            [True] * (exchange in self.full_gradient) + [False] * self.trains(exchange)
            for exchange in range(self.exchanges)
        ]

    def broadcast(self, server: Server) -> Message:
        """The message to every participant; ``server.exchange`` counts the exchanges of a round."""
        return server.message(server.w)

    def begin(self, client: Client) -> None:
        """Called before a client's first local step, with the message and its state loaded."""

    def gradient(self, client: Client) -> None:
        """Compute this step's gradient in ``client.grad``; by default the local optimizer's."""
        client.local.gradient(client)

    def correct(self, client: Client) -> None:
        """Change ``client.grad`` in place before the optimizer's step, at the unperturbed ``w``."""

    def after_step(self, client: Client) -> None:
        """After each step of the optimizer; not called unless it is overridden."""

    def finish(self, client: Client) -> Update:
        """After the last local step: update ``client.state`` and return what is sent."""
        return Update({"delta": client.delta()})

    def diagnostics(self, server: Server) -> dict[str, float]:
        """Figures of the finished round for the history, by name.

        By default ``norm_<name>`` of every vector that the server keeps: one that grows from round
        to round is a correction that diverges.
        """
        kept = {name: server.state.get(name) for name in self.server_vectors}
        return {
            f"norm_{n}": float(v.norm()) for n, v in kept.items() if isinstance(v, torch.Tensor)
        }

    def step(self, server: Server, updates: Aggregate) -> None:
        """Change ``server.w`` and ``server.state`` with the aggregated updates."""
        raise NotImplementedError
