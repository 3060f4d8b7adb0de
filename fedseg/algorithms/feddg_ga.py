"""FedDG-GA: the server weighs clients by their generalization gaps.

Zhang et al., "Federated Domain Generalization with Generalization Adjustment", CVPR 2023. The gap
of a client is the loss of the received model on its images minus that of its own model at the end
of its last round, before it was averaged. With partial participation:

- a client without an earlier round has no gap, and its share stays;
- shares that would all be 0 stay what they are;
- shares are scaled to sum 1 over all clients; those of the participants weigh the sum;
- BatchNorm's statistics are averaged by samples.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedseg.algorithms.fedavg import FedAvg
from fedseg.algorithms.passes import at_rest, client_batches
from fedseg.config.schema import Share
from fedseg.core.client import Client
from fedseg.core.messages import Message, Payload, Update
from fedseg.core.server import Aggregate, Server
from fedseg.registry import ALGORITHMS

OWN_LOSS = "own_loss"


@ALGORITHMS.register_module()
class FedDGGA(FedAvg):
    """``w <- ServerOpt(w, sum_S a_k/a (w - w_k))`` with shares a_k by generalization gap.

    ``a_k <- a_k + s gap_k / max_S |gap|``, clipped to [0, 1] and scaled to sum 1; s falls linearly,
    ``step_size (1 - (t - 1)/T)``. A round has two exchanges: first the gaps, then the training.
    Each client passes over its images twice more, without gradients. Where all participants have
    share 0 they count by samples.

    Args:
        step_size: of the shares; 0: all clients count the same.
        server_optim: as in :class:`FedAvg`.
    """

    exchanges = 2
    training = (1,)
    weightings = ("samples", "shares")
    payloads = (Payload("gaps", ("clients",), "rows"),)

    def __init__(self, step_size: Share = 0.2, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.step_size = step_size
        self.max_rounds = 1

    def check_rounds(self, max_rounds: int) -> None:
        self.max_rounds = max_rounds

    def broadcast(self, server: Server) -> Message:
        if server.exchange == 0:
            return server.message(server.w)
        return server.message(server.w, {"shares": server.scratch["shares"]}, known=True)

    def finish(self, client: Client) -> Update:
        loss = self._loss(client)
        if client.exchange == 1:
            client.state[OWN_LOSS] = loss
            share = client.extras["shares"][client.index]
            return Update({"delta": client.delta()}, {"shares": float(share)})
        gaps, known = loss.new_zeros(2, len(self.data.clients))
        if OWN_LOSS in client.state:
            gaps[client.index], known[client.index] = loss - client.state[OWN_LOSS], 1
        return Update({}, payloads={"gaps": (gaps, known)})

    def _loss(self, client: Client) -> Tensor:
        """The mean loss of the client's images at ``client.w``, in the model's dtype."""
        total, sizes = torch.zeros_like(client.w[0]), self.data.full_sizes(client.index)
        if not sizes:  # a rehearsal of what is sent
            return total
        with torch.no_grad(), at_rest(client.model):
            batches = client_batches(client, self.data)
            for size, batch in zip(sizes, batches, strict=True):
                client.batch = batch
                total += client.model_loss() * (size / sum(sizes))
        client.batch = None
        return total

    def step(self, server: Server, updates: Aggregate) -> None:
        if server.exchange == 0:
            gaps = updates.mean("gaps")
            shares = server.state.get("shares", torch.full_like(gaps, 1 / len(gaps)))
            step_size = self.step_size * (1 - (server.round - 1) / self.max_rounds)
            changed = shares + step_size * gaps / gaps.abs().max().clamp(min=1e-300)
            changed = changed.clamp(0, 1)
            # all 0 they stay: none is better than another
            server.scratch["shares"] = changed / changed.sum() if changed.any() else shares
            return
        server.state["shares"] = server.scratch["shares"]
        delta = updates.mean("delta")
        if weight := updates.weights["shares"]:
            delta = updates.weighted_sum("delta", "shares") / weight
        self.server_optim.step(server, delta)
