"""FedDyn: every client aligns with the server through a dual variable.

Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, algorithm 1, in ADMM
form with ``alpha = 1/beta``. A client's dual lives on while it is not sampled.

Note that ``beta sigma`` on the server is the sum of all past drifts over K and does not depend on
beta: for a large beta the clients train like FedAvg's, the server still adds that sum.
"""

import torch

from fedseg.config.arguments import Positive
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.messages import Update
from fedseg.core.server import Server
from fedseg.core.vectors import descend
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedDyn(Algorithm):
    """Dynamic regularization.

    Args:
        beta: inverse strength of the quadratic term (1/alpha in the paper).
    """

    client_vectors: tuple[str, ...] = ("sigma",)
    server_vectors: tuple[str, ...] = ("sigma",)
    weightings = {"delta": "uniform"}

    def __init__(self, beta: Positive) -> None:
        self.beta = beta

    def correct(self, client: Client) -> None:
        """``g - sigma_k + (w_k - w)/beta``: the gradient of the regularized local loss."""
        client.grad.sub_(client.state["sigma"])
        client.grad.add_(client.w, alpha=1 / self.beta).sub_(client.start, alpha=1 / self.beta)

    def finish(self, client: Client) -> Update:
        """``sigma_k <- sigma_k - (w_k - w)/beta``."""
        delta = client.delta()
        client.state["sigma"].add_(delta, alpha=1 / self.beta)
        return Update({"delta": delta})

    def add_drift(self, server: Server, aggregate: Aggregate) -> torch.Tensor:
        """``sigma <- sigma - 1/(beta K) sum_S (w_k - w)``; returns the new sigma."""
        scale = 1 / (self.beta * server.num_clients)
        return server.state["sigma"].add_(aggregate.total("delta", "uniform"), alpha=scale)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``w <- mean_S w_k - beta sigma``, with the new sigma."""
        sigma = self.add_drift(server, aggregate)
        descend(server.w, aggregate.mean("delta") + self.beta * sigma)
