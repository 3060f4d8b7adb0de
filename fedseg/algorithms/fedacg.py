"""FedACG: clients start at the server's lookahead point.

Kim et al., "Communication-Efficient Federated Learning with Accelerated Client Gradient", CVPR 2024
(arXiv 2201.03172, 2022), algorithm 1. Means over the clients are uniform, in the paper as in the
released code.

The released code leaves the 1/2 out of the proximal term, so that its weight is half of ``beta``;
it clips gradients at norm 10; and its momentum runs over BatchNorm's statistics as well. Here
``beta`` is the paper's, clipping is the local optimizer's option, and statistics are averaged.
"""

from fedseg.config.arguments import Decay, NonNegative
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.messages import Message
from fedseg.core.server import Server
from fedseg.core.vectors import descend
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedACG(Algorithm):
    """Accelerated client gradient, at FedAvg's traffic: what is sent is ``w + lam m``.

    Args:
        lam: decay of the server's momentum and of the lookahead (lambda in the paper).
        beta: strength of the proximal term around the start.
    """

    server_vectors = ("momentum",)
    weightings = {"delta": "uniform"}

    def __init__(self, lam: Decay, beta: NonNegative) -> None:
        self.lam = lam
        self.beta = beta

    def broadcast(self, server: Server) -> Message:
        """The clients start at ``w + lam m``."""
        ahead = self.lam * server.state["momentum"]
        return server.message(ahead.add_(server.w).to(server.w.dtype))

    def correct(self, client: Client) -> None:
        """``g + beta (w_k - w_start)``, the gradient with ``beta/2 ||w_k - w_start||^2``."""
        client.grad.sub_(client.displacement(), alpha=self.beta)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``m <- lam m + mean_S(w_k - w_start)``, ``w <- w + m``."""
        momentum = server.state["momentum"].mul_(self.lam).sub_(aggregate.mean("delta"))
        descend(server.w, -momentum)
