"""MIME and MIMELite: clients use the server's momentum without updating it.

Karimireddy et al., "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning", 2020
(NeurIPS 2021 as "Breaking the Centralized Barrier for Cross-Device Federated Learning"), algorithm
1, with SGD (momentum 0) or SGD with momentum as the base algorithm.

Both averages, of the models and of the full-batch gradients, are uniform over the participants, as
the paper writes them. The full-batch gradient is one pass over a client's samples in their training
augmentation; like every pass at ``w`` it leaves BatchNorm's running statistics alone.

With SAM or ASAM as the local optimizer its gradient takes the place of every gradient here, of the
full-batch one as well (the mean of the minibatches' SAM gradients), so that ``g(w_k) - g(w) + c``
stays an unbiased estimate. Weight decay is the local optimizer's, at ``w_k``. Local momentum is
rejected: clients must not change the momentum.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch

from fedseg.batchnorm import batchnorm_layers, frozen_running_statistics
from fedseg.config.arguments import Decay
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Exchange, Message, Update
from fedseg.core.server import Server
from fedseg.errors import ConfigError
from fedseg.optim.server import build_server_optimizer
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class MIMELite(Algorithm):
    """Local steps with ``(1-b) g(w_k) + b m``; the server updates m by full-batch gradients.

    A second vector each way (m down, the full-batch gradient up), twice FedAvg's traffic.

    Args:
        momentum: b.
        server_optim: how the server moves along ``mean_S (w - w_k)``, as in FedAvg; SGD with lr 1
            is the paper's average.
    """

    exchanges: ClassVar[tuple[Exchange, ...]] = (Exchange(full_gradient=True),)
    server_vectors = ("m",)
    weightings = {"delta": "uniform", "gradient": "uniform"}

    def __init__(self, momentum: Decay = 0.0, server_optim: Mapping | None = None) -> None:
        self.momentum = momentum
        self.server_optim = build_server_optimizer(server_optim)

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        if any(group.get("momentum") for group in local.optimizer.param_groups):
            raise ConfigError(
                f"optim_wrapper.optimizer.momentum: {type(self).__name__} uses the server's "
                f"momentum (algorithm.momentum): set the clients' to 0"
            )

    def broadcast(self, server: Server) -> Message:
        return server.message(server.w, m=server.state["m"])

    def correct(self, client: Client) -> None:
        """``(1-b) g(w_k) + b m``."""
        client.grad.mul_(1 - self.momentum).add_(client.extras["m"], alpha=self.momentum)

    def finish(self, client: Client) -> Update:
        return Update({"delta": client.delta(), "gradient": client.full_gradient})

    def new_momentum(self, server: Server, aggregate: Aggregate) -> torch.Tensor:
        """``(1-b) c + b m`` with ``c = mean_S`` of the full-batch gradients."""
        c = aggregate.mean("gradient")
        return c.mul_(1 - self.momentum).add_(server.state["m"], alpha=self.momentum)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``m <- (1-b) c + b m`` and ``w <- ServerOpt(w, mean_S (w - w_k))``."""
        server.state["m"] = self.new_momentum(server, aggregate)
        self.server_optim.step(server, aggregate.mean("delta"))


@ALGORITHMS.register_module()
class MIME(MIMELite):
    """Local steps with ``(1-b)(g(w_k) - g(w) + c) + b m``, both g over the same minibatch.

    The first exchange gathers the full-batch gradients at w, whose mean is c. The second brings
    ``d = (1-b) c + b m``, all that the clients need of the two, and trains: in all a second vector
    each way, twice FedAvg's traffic. With momentum 0 this is MIME-SGD. Arguments as
    :class:`MIMELite`.
    """

    exchanges = (Exchange(train=False, full_gradient=True), Exchange(gradients=2))

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        self._client_w = torch.empty_like(flat.w)
        self._client_gradient = torch.empty_like(flat.w)
        self._batchnorm_layers = list(batchnorm_layers(flat.model).values())

    def broadcast(self, server: Server) -> Message:
        if server.exchange == 0:
            return server.message(server.w)
        return server.message(server.w, w_is_known=True, d=server.scratch["d"])

    def gradient(self, client: Client) -> None:
        """``g(w_k) - g(w)``, with the same minibatch, augmentation and dropout."""
        client.local.gradient(client)
        self._client_gradient.copy_(client.grad)
        self._client_w.copy_(client.w)
        client.w.copy_(client.start)
        with frozen_running_statistics(self._batchnorm_layers):
            client.local.gradient(client, replay=True)
        client.w.copy_(self._client_w)
        torch.sub(self._client_gradient, client.grad, out=client.grad)

    def correct(self, client: Client) -> None:
        """``(1-b)(g(w_k) - g(w)) + d``."""
        client.grad.mul_(1 - self.momentum).add_(client.extras["d"])

    def finish(self, client: Client) -> Update:
        if client.exchange == 0:
            return Update({"gradient": client.full_gradient})
        return Update({"delta": client.delta()})

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """First ``d``, which is also the new m; in the second exchange the server's state."""
        if server.exchange == 0:
            server.scratch["d"] = self.new_momentum(server, aggregate)
            return
        server.state["m"] = server.scratch["d"]
        self.server_optim.step(server, aggregate.mean("delta"))
