"""Base of the local losses, which compose with every algorithm and local optimizer."""

import torch
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.flat import FlatModel


class LocalLoss:
    """The loss of one minibatch: every gradient of a local step, both of SAM too, is its gradient.

    It is chosen by ``local_loss`` in a config and composes with every algorithm. Vectors that it
    keeps between a client's rounds are in ``client.state``, under names that no algorithm uses.
    """

    def check(self, flat: FlatModel) -> None:
        """Raise ConfigError for a model that the loss does not apply to; called once."""

    def loss(self, client: Client) -> Tensor:
        """The loss of ``client.batch`` at the present ``client.w``, a 0-d tensor with a graph."""
        return client.model_loss()

    def finish(self, client: Client) -> None:
        """After the last local step: update ``client.state``."""


def full_precision(tensor: Tensor) -> Tensor:
    """At least float32: what a network gives under bfloat16 autocast, for sums and norms."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
