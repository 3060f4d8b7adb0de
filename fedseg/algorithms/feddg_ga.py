"""FedDG-GA: the server weighs clients by their generalization gaps.

Zhang et al., "Federated Domain Generalization with Generalization Adjustment", CVPR 2023. The gap
of a client is the loss of the received model on its images minus that of its own model at the end
of its last round, before it was averaged.

The paper has three to five domains that all take part in every round. Its step would leave most of
many clients a share of 0, of which few take part: here it is divided by the number K of clients.
Shares are in units of their mean, that is K times the paper's; its step of 0.2 with K domains is
``step_size=0.2 * K``. With partial participation:

- a client without an earlier round has a gap of 0, and its share stays;
- shares that would all be 0 stay what they are;
- shares are scaled to a mean of 1 over all clients; those of the participants weigh the sum;
- BatchNorm's statistics are averaged by samples.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedseg.algorithms.fedavg import FedAvg
from fedseg.config.arguments import NonNegative
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Exchange, Message, Update
from fedseg.core.passes import at_rest, client_batches
from fedseg.core.server import Server
from fedseg.registry import ALGORITHMS

OWN_LOSS = "own_loss"


@ALGORITHMS.register_module()
class FedDGGA(FedAvg):
    """``w <- ServerOpt(w, sum_S a_k/a (w - w_k))`` with shares a_k by generalization gap.

    ``a_k <- a_k + s gap_k / max_S |gap|``, clipped to [0, K] and scaled to a mean of 1; s falls
    linearly, ``step_size (1 - (t - 1)/T)``. A round has two exchanges: first the gaps, then the
    training. Each client passes over its images twice more, without gradients. Where all
    participants have share 0 they count by samples.

    Args:
        step_size: of the shares, in units of their mean; 0: all clients count the same.
        server_optim: as in :class:`FedAvg`.
    """

    exchanges = (Exchange(train=False), Exchange())
    weightings = {"delta": ("shares", "samples")}

    def __init__(self, step_size: NonNegative = 0.2, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.step_size = step_size
        self.max_rounds = 1

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        self.max_rounds = max_rounds

    def broadcast(self, server: Server) -> Message:
        if server.exchange == 0:
            return server.message(server.w)
        shares = server.scratch["shares"].tolist()
        return server.message(server.w, w_is_known=True, numbers={"share": shares})

    def finish(self, client: Client) -> Update:
        loss = self._loss(client)
        if client.exchange == 0:
            gap = loss - client.state.get(OWN_LOSS, loss)
            return Update({}, numbers={"gap": float(gap)})
        client.state[OWN_LOSS] = loss
        return Update({"delta": client.delta()}, weights={"shares": client.numbers["share"]})

    def _loss(self, client: Client) -> Tensor:
        """The mean loss of the client's images at ``client.w``, in the model's dtype."""
        total = torch.zeros_like(client.w[0])
        sizes = self.data.full_sizes(client.index)
        if not sizes:  # a rehearsal of what is sent
            return total
        with torch.no_grad(), at_rest(client.model):
            batches = client_batches(client, self.data)
            for size, batch in zip(sizes, batches, strict=True):
                client.batch = batch
                total += client.model_loss() * (size / sum(sizes))
        client.batch = None
        return total

    def step(self, server: Server, aggregate: Aggregate) -> None:
        if server.exchange == 0:
            server.scratch["shares"] = self._move_shares(server, aggregate.numbers["gap"])
            return
        server.state["shares"] = server.scratch["shares"]
        weighting = "shares" if aggregate.weights["shares"] > 0 else "samples"
        self.server_optim.step(server, aggregate.mean("delta", weighting))

    def _move_shares(self, server: Server, gaps: Mapping[int, float]) -> Tensor:
        """The shares of all clients after the gaps of this round's participants, float64 [K]."""
        shares = server.state.get("shares", torch.ones(server.num_clients, dtype=torch.float64))
        largest = max((abs(gap) for gap in gaps.values()), default=0.0)
        if largest == 0:
            return shares
        step_size = self.step_size * (1 - (server.round - 1) / self.max_rounds)
        moved = shares.clone()
        for client, gap in gaps.items():
            moved[client] += step_size * gap / largest
        moved.clamp_(0, server.num_clients)
        # all 0 they stay: none is better than another
        return moved / moved.mean() if moved.any() else shares
