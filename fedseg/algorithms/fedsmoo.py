"""FedSMOO: FedDyn for the model and for the clients' perturbation.

Sun et al., "Dynamic Regularized Sharpness Aware Minimization in Federated Learning: Approaching
Global Consistency and Smooth Landscape", ICML 2023, algorithm 1.

The released code differs from the paper, which is followed here: its server leaves the last step's
perturbation out of what it averages (``s <- rho m/||m||`` with the mean of ``mu_k`` instead of
``mu_k - e``).
"""

import torch
from pydantic import NonNegativeInt

from fedseg.algorithms.feddyn import FedDyn
from fedseg.algorithms.perturbation import WeightPerturbation
from fedseg.config.arguments import NonNegative, Positive
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Update
from fedseg.core.server import Server
from fedseg.core.vectors import linear_warmup, scale_to_norm
from fedseg.optim.local import check_warmup, check_warmup_end
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedSMOO(WeightPerturbation, FedDyn):
    """Dynamic regularization of the model (FedDyn's) and of the perturbation.

    Every client has a dual ``mu_k`` of its perturbation, updated at every local step, and the
    server the global perturbation ``s``: a second vector each way, twice FedAvg's traffic.

    Args:
        rho: radius of the perturbation, of the clients' and of the server's; 0 is FedDyn.
        beta: inverse strength of the quadratic term, as in FedDyn.
        freeze_statistics: see :class:`~fedseg.algorithms.perturbation.WeightPerturbation`.
        rho0: first radius of a schedule that grows linearly to ``rho``, as FedGloSS's.
        rho_rounds: rounds over which it grows; 0: none.
    """

    client_vectors = ("mu", "sigma")
    server_vectors = ("s", "sigma")
    weightings = {"delta": "uniform", "mu": "uniform"}

    def __init__(
        self,
        rho: NonNegative,
        beta: Positive,
        freeze_statistics: bool = False,
        rho0: NonNegative | None = None,
        rho_rounds: NonNegativeInt = 0,
    ) -> None:
        check_warmup(rho0, rho_rounds)
        WeightPerturbation.__init__(self, freeze_statistics)
        FedDyn.__init__(self, beta)
        self.rho = rho
        self.rho0 = rho0
        self.rho_rounds = rho_rounds

    def radius(self, round_: int) -> float:
        """The radius in a round (from 1)."""
        return linear_warmup(self.rho0, self.rho, self.rho_rounds, round_)

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        check_warmup_end("algorithm", self.rho_rounds, max_rounds)
        self._epsilon = torch.empty_like(flat.w)

    def broadcast(self, server: Server) -> Message:
        return server.message(server.w, s=server.state["s"])

    def perturb(self, client: Client) -> None:
        """``d = g - mu_k - s``, ``e = rho d/||d||``, ``mu_k <- mu_k + (e - s)``."""
        mu = client.state["mu"]
        s = client.extras["s"]
        direction = client.grad.sub_(mu).sub_(s)
        scale = scale_to_norm(self.radius(client.round), direction.norm())
        epsilon = torch.mul(direction, scale, out=self._epsilon)
        mu.add_(epsilon).sub_(s)
        client.w.add_(epsilon)

    def finish(self, client: Client) -> Update:
        """FedDyn's update, and ``mu_k - e`` with the last step's ``e``."""
        update = super().finish(client)
        update.vectors["mu"] = torch.sub(client.state["mu"], self._epsilon, out=self._epsilon)
        return update

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``s <- rho m/||m||`` with ``m = mean_S (mu_k - e)``; then FedDyn's step."""
        mean = aggregate.mean("mu")
        server.state["s"] = mean * scale_to_norm(self.radius(server.round), mean.norm())
        super().step(server, aggregate)
