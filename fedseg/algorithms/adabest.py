"""AdaBest: drift estimates that decay, on the clients and on the server.

Varno et al., "AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation",
ECCV 2022, algorithm 1. A client's estimate is divided by the rounds since its last participation;
the server's is a share of its last step. Means over the clients are uniform.

With ``wbar = w + h``, which is how the server made ``w``, its rule ``h <- beta (wbar_prev - wbar)``
is ``h <- beta (h + Delta)``: only h has to be stored, the first round is no special case (wbar_prev
is the first model, h is zero), and no two nearly equal models are subtracted.

The released code multiplies ``mu`` by the mean of N_k over the clients seen so far and divides it
by the client's own N_k; the paper, and this, does not.
"""

import torch

from fedseg.config.arguments import NonNegative, Share
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.messages import Update
from fedseg.core.server import Server
from fedseg.core.vectors import descend
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class AdaBest(Algorithm):
    """Adaptive bias estimation, at FedAvg's traffic.

    Args:
        mu: weight of a client's latest update in its estimate; 0: none.
        beta: weight of the server's last step in its estimate; 0: none.
    """

    client_vectors = ("h",)  # beside it the client's last round, ``last_round``
    server_vectors = ("h",)
    weightings = {"delta": "uniform"}

    def __init__(self, mu: NonNegative, beta: Share) -> None:
        self.mu = mu
        self.beta = beta

    def correct(self, client: Client) -> None:
        """``g - h_k``."""
        client.grad.sub_(client.state["h"])

    def finish(self, client: Client) -> Update:
        """``h_k <- h_k/(t - t_k) + mu (w - w_k)``, t_k = the client's last round."""
        delta = client.delta()
        h = client.state["h"]
        last_round = client.state.get("last_round")
        if last_round is not None:  # at first, h_k is zero
            h.div_(client.round - last_round)
        h.add_(delta, alpha=self.mu)
        client.state["last_round"] = torch.tensor(client.round, device=h.device)
        return Update({"delta": delta})

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``h <- beta (wbar_prev - wbar)``, ``w <- wbar - h`` with ``wbar = mean_S(w_k)``."""
        delta = aggregate.mean("delta")
        h = server.state["h"].add_(delta).mul_(self.beta)
        descend(server.w, delta + h)
