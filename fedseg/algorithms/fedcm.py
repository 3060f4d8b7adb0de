"""FedCM: every local step mixes in the last round's mean direction.

Xu et al., "FedCM: Federated Learning with Client-level Momentum", arXiv 2106.10874, 2021, algorithm
FedCM. ``D`` is zero in the first round, whose steps are ``alpha g``.

``D`` is the uniform mean of the participants' mean gradients, and the model moves along it too, in
the paper by ``eta_g D`` with clients of one K. Here ``eta_g`` is ``eta K`` times the server
optimizer's learning rate, so that 1 gives the mean of the clients' models. Where K_k differ, K is
their harmonic mean: the clients' models then weigh 1/K_k.
"""

from collections.abc import Mapping
from typing import Annotated

from annotated_types import Interval

from fedseg.algorithms.fedavg import FedAvg
from fedseg.algorithms.mean_gradient import check_optimizer, k_eta
from fedseg.config.arguments import Float32
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Update
from fedseg.core.server import Server
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedCM(FedAvg):
    """Client-level momentum. One and a half times FedAvg's traffic: ``D`` goes down with ``w``.

    Args:
        alpha: share of the client's own gradient; 1 is FedAvg.
        server_optim: as in :class:`FedAvg`.
        count_momentum: as in :class:`SCAFFOLD <fedseg.algorithms.scaffold.SCAFFOLD>`.
        weigh_samples: the model moves as FedAvg's does, by the mean weighted by N_k, and not along
            ``D``; the same where clients have as many samples and steps.
    """

    server_vectors = ("direction",)

    def __init__(
        self,
        alpha: Annotated[Float32, Interval(gt=0, le=1)],
        server_optim: Mapping | None = None,
        count_momentum: bool = False,
        weigh_samples: bool = False,
    ) -> None:
        super().__init__(server_optim)
        self.alpha = alpha
        self.count_momentum = count_momentum
        self.weigh_samples = weigh_samples
        self.weightings = {"delta": ("per_step", "samples") if weigh_samples else "per_step"}

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        check_optimizer(local, type(self).__name__, self.count_momentum)

    def broadcast(self, server: Server) -> Message:
        return server.message(server.w, direction=server.state["direction"])

    def correct(self, client: Client) -> None:
        """``alpha g + (1 - alpha) D``."""
        client.grad.lerp_(client.extras["direction"], 1 - self.alpha)

    def finish(self, client: Client) -> Update:
        per_step = 1 / k_eta(client, self.count_momentum)
        return Update({"delta": client.delta()}, weights={"per_step": per_step})

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``D <- mean_S((w - w_k)/(eta K_k))``, ``w <- ServerOpt(w, eta K D)``."""
        server.state["direction"] = aggregate.total("delta", "per_step") / aggregate.num_clients
        weighting = "samples" if self.weigh_samples else "per_step"
        self.server_optim.step(server, aggregate.mean("delta", weighting))
