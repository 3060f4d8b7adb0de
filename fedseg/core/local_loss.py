"""Base of the local losses, which compose with every algorithm and local optimizer."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Payload
from fedseg.core.server import Server


class LocalLoss:
    """The loss of one minibatch: every gradient of a local step, both of SAM too, is its gradient.

    It is chosen by ``local_loss`` in a config and composes with every algorithm. Vectors that it
    keeps between a client's rounds are in ``client.state``, under names that no algorithm uses.

    Attributes:
        payloads: what it exchanges with the server besides the model; may be set in ``setup``.
        data: the clients' data, for passes of its own.
    """

    payloads: Sequence[Payload] = ()
    data: Any = None

    def setup(self, flat: FlatModel) -> None:
        """Called once before training.

        Raises:
            ConfigError: the loss does not apply to the model.
        """

    def receive(self, client: Client) -> None:
        """Before a client's steps, and before a full gradient: ``client.payloads`` by name."""

    def loss(self, client: Client) -> Tensor:
        """The loss of ``client.batch`` at the present ``client.w``, a 0-d tensor with a graph."""
        return client.model_loss()

    def finish(self, client: Client) -> Mapping[str, Tensor] | None:
        """After the last local step: update ``client.state``, return the payloads to send."""

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """After the algorithm's step: change ``server.state`` with the payloads' sums."""


def full_precision(tensor: Tensor) -> Tensor:
    """At least float32: what a network gives under bfloat16 autocast, for sums and norms."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
