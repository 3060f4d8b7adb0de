"""FedGloSS: sharpness-aware steps on the server, at FedAvg's communication cost.

Caldarola et al., "Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning", algorithm 1 and appendix C.

Clients receive ``w~ = w + eps``, the perturbed model. The paper and its released code differ in the
server's radius (:meth:`FedGloSS.radius`) and in its dual (:meth:`FedGloSS.add_drift`).
"""

from pydantic import NonNegativeInt
from torch import Tensor

from fedseg.algorithms.feddyn import FedDyn
from fedseg.config.arguments import NonNegative, Positive
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Exchange, Message, Update
from fedseg.core.server import Server
from fedseg.core.vectors import descend, linear_warmup, scale_to_norm
from fedseg.optim.local import check_warmup, check_warmup_end
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedGloSS(FedDyn):
    """Server-side SAM that takes the ascent direction from the previous round's pseudo-gradient.

    Clients start at ``w + eps``; with ADMM their rule is FedDyn's around that point.

    Args:
        rho_server: radius of the server's perturbation.
        beta: inverse strength of the ADMM term (unused without ADMM).
        admm: align the clients by dual variables; without it, FedAvg with a server-side SAM step.
        rho0: start of the server's rho schedule.
        rho_rounds: rounds T_s over which it grows linearly to ``rho_server``; 0: none.
        released_rules: the released code's server rules instead of the paper's.
        dual_from_w: the server's dual by ``w_k - w`` (algorithm 1, line 22), not ``w_k - w~``.
    """

    def __init__(
        self,
        rho_server: NonNegative,
        beta: Positive | None = None,
        admm: bool = True,
        rho0: NonNegative | None = None,
        rho_rounds: NonNegativeInt = 0,
        released_rules: bool = False,
        dual_from_w: bool = False,
    ) -> None:
        check_warmup(rho0, rho_rounds)
        if admm:
            if beta is None:
                raise ValueError("beta is needed with admm=True")
            super().__init__(beta)
        self.rho_server = rho_server
        self.admm = admm
        self.rho0 = rho0
        self.rho_rounds = rho_rounds
        self.released_rules = released_rules
        self.dual_from_w = dual_from_w
        self.rho_client = 0.0  # the clients' full radius, known from setup on; SGD has none
        if admm:
            self.client_vectors = ("sigma",)
            self.server_vectors = ("previous_delta", "sigma")
            self.weightings = {"delta": ("samples", "uniform")}
        else:
            self.client_vectors = ()
            self.server_vectors = ("previous_delta",)
            self.weightings = {"delta": "samples"}

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        check_warmup_end("algorithm", self.rho_rounds, max_rounds)
        self.rho_client = getattr(local, "rho", 0.0)

    def radius(self, round_: int) -> float:
        """The server's radius in a round (from 1): linearly from rho_0 to its full radius.

        With the released rules it is rho_0 in round 1, as in the paper, and then constant while it
        should grow: in rounds 2 to T_s + 1 (T_s > 1) it is the clients' full radius and a T_s-th of
        the server's growth.
        """
        if not self.released_rules or self.rho0 is None or round_ == 1:
            return linear_warmup(self.rho0, self.rho_server, self.rho_rounds, round_)
        if self.rho_rounds == 1 or round_ > self.rho_rounds + 1:
            return self.rho_server
        return self.rho_client + (self.rho_server - self.rho0) / self.rho_rounds

    def perturbation(self, server: Server, direction: Tensor) -> Tensor:
        """``eps = rho_s Delta/||Delta||`` (zero for a zero direction), float64."""
        return direction * scale_to_norm(self.radius(server.round), direction.norm())

    def perturbed_message(self, server: Server, direction: Tensor) -> Message:
        """The message that starts the clients at ``w + eps``."""
        epsilon = self.perturbation(server, direction)
        return server.message((server.w.to(epsilon.dtype) + epsilon).to(server.w.dtype))

    def direction(self, server: Server) -> Tensor:
        """The direction of this round's perturbation."""
        return server.state["previous_delta"]

    def broadcast(self, server: Server) -> Message:
        return self.perturbed_message(server, self.direction(server))

    def correct(self, client: Client) -> None:
        if self.admm:
            super().correct(client)

    def finish(self, client: Client) -> Update:
        return super().finish(client) if self.admm else Update({"delta": client.delta()})

    def add_drift(self, server: Server, aggregate: Aggregate) -> Tensor:
        """``sigma <- sigma - 1/(beta K) sum_S (w_k - w~)``, as FedDyn's; returns the new sigma.

        With the released rules the mean over S takes the place of the sum. With ``dual_from_w``
        every ``w_k - w~`` is ``w_k - w``, which is longer by ``w~ - w = eps``.
        """
        scale = 1 / (self.beta * server.num_clients)
        if self.released_rules:
            num_perturbations = 1  # in a mean
            sigma = server.state["sigma"].add_(aggregate.mean("delta", "uniform"), alpha=scale)
        else:
            num_perturbations = aggregate.num_clients  # in a sum
            sigma = super().add_drift(server, aggregate)
        if self.dual_from_w:
            epsilon = self.perturbation(server, self.direction(server))
            sigma.sub_(epsilon, alpha=scale * num_perturbations)
        return sigma

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``w <- w - Delta - beta sigma`` from the unperturbed ``w``; keeps Delta without sigma."""
        delta = aggregate.mean("delta")
        if self.admm:
            descend(server.w, delta + self.beta * self.add_drift(server, aggregate))
        else:
            descend(server.w, delta)
        server.state["previous_delta"] = delta

    def metrics(self, server: Server) -> dict[str, float]:
        """``norm_sigma``, with ADMM; the norm of the kept Delta is the history's ``norm_delta``."""
        return {"norm_sigma": float(server.state["sigma"].norm())} if self.admm else {}


@ALGORITHMS.register_module()
class NaiveFedGloSS(FedGloSS):
    """FedGloSS with the exact ascent direction, at twice the communication.

    The first exchange, from ``w``, gives the round's own pseudo-gradient and with it the
    perturbation; the second, same clients and minibatches, trains from ``w + eps``. Nothing of the
    first exchange is kept by the clients. Arguments as :class:`FedGloSS`.
    """

    exchanges = (Exchange(), Exchange())

    def broadcast(self, server: Server) -> Message:
        if server.exchange == 0:
            return server.message(server.w)
        return self.perturbed_message(server, self.direction(server))

    def direction(self, server: Server) -> Tensor:
        return server.scratch["delta"]

    def finish(self, client: Client) -> Update:
        if client.exchange == 0:
            return Update({"delta": client.delta()})
        return super().finish(client)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        if server.exchange == 0:
            server.scratch["delta"] = aggregate.mean("delta")
            exact = self.perturbation(server, server.scratch["delta"])
            approximate = self.perturbation(server, server.state["previous_delta"])
            server.scratch["delta_eps"] = (approximate - exact).norm()
            return
        super().step(server, aggregate)

    def metrics(self, server: Server) -> dict[str, float]:
        """``delta_eps``: distance from this perturbation to the one FedGloSS would have used.

        FedGloSS perturbs nothing in the first round, where it is the radius.
        """
        return {**super().metrics(server), "delta_eps": float(server.scratch["delta_eps"])}
