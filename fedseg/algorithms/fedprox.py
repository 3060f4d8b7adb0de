"""FedProx: a proximal term keeps the clients near the received model.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, algorithm 2 and equation
2, ``h_k(w_k; w) = F_k(w_k) + mu/2 ||w_k - w||^2``.

The paper draws clients with probability p_k and takes the plain mean of their models; the released
code draws them uniformly and weights by N_k, as here. Its stragglers, which stop after fewer local
epochs, are no part of the rule and not here: every client does all its steps.
"""

from collections.abc import Mapping

from fedseg.algorithms.fedavg import FedAvg
from fedseg.config.arguments import NonNegative
from fedseg.core.client import Client
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedProx(FedAvg):
    """FedAvg with the local gradient ``g + mu (w_k - w)``.

    Args:
        mu: strength of the proximal term; 0 is FedAvg.
        server_optim: as in :class:`FedAvg`.
    """

    def __init__(self, mu: NonNegative, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.mu = mu

    def correct(self, client: Client) -> None:
        """``g + mu (w_k - w)``; the difference first, so that a small one keeps its digits."""
        client.grad.sub_(client.displacement(), alpha=self.mu)
