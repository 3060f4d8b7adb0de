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
from fedseg.config.schema import NonNegative, Positive
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Update
from fedseg.core.server import Aggregate, Server
from fedseg.optim.local import check_warmup, check_warmup_end, linear_warmup, scale_to_norm
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
        self.rho, self.rho0, self.rho_rounds = rho, rho0, rho_rounds

    def check_rounds(self, max_rounds: int) -> None:
        check_warmup_end("algorithm", self.rho_rounds, max_rounds)

    def radius(self, round_: int) -> float:
        """The radius in a round (from 1)."""
        return linear_warmup(self.rho0, self.rho, self.rho_rounds, round_)

    def bind(self, flat: FlatModel) -> None:
        super().bind(flat)
        self._epsilon = torch.empty_like(flat.w)

    def broadcast(self, server: Server) -> Message:
        return server.message(server.w, {"s": server.state["s"]})

    def perturb(self, client: Client) -> None:
        """``d = g - mu_k - s``, ``e = rho d/||d||``, ``mu_k <- mu_k + (e - s)``."""
        mu, s = client.state["mu"], client.extras["s"]
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

    def step(self, server: Server, updates: Aggregate) -> None:
        """``s <- rho m/||m||`` with ``m = mean_S (mu_k - e)``; then FedDyn's step."""
        mean = updates.uniform_mean("mu")
        server.state["s"] = mean * scale_to_norm(self.radius(server.round), mean.norm())
        super().step(server, updates)
