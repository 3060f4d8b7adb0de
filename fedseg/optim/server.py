"""Server optimizers: how the global model moves along a pseudo-gradient.

The adaptive ones are those of Reddi et al., "Adaptive Federated Optimization", ICLR 2021,
algorithm 2: no bias correction, ``tau`` outside the root, ``v_0 = tau^2``. All arithmetic is in
float64.
"""

from collections.abc import Mapping

import torch
from pydantic import PositiveFloat
from torch import Tensor

from fedseg.config.arguments import Decay, Positive, check_values
from fedseg.core.server import Server
from fedseg.core.vectors import descend
from fedseg.optim.local import check_torch_optimizer
from fedseg.registry import OPTIMIZERS, SERVER_OPTIMIZERS, build

TORCH_OPTIMIZERS = ("SGD", "Adam", "Adagrad")
FIELD = "algorithm.server_optim.optimizer"  # of Torch


class ServerOptimizer:
    """Moves ``server.w`` along a pseudo-gradient; keeps its vectors in ``server.state``."""

    def step(self, server: Server, delta: Tensor) -> None:
        """Update ``server.w`` in place.

        Args:
            server: the server.
            delta: the pseudo-gradient, the direction to descend, float64, like ``server.w``.
        """
        raise NotImplementedError

    @staticmethod
    def vector(server: Server, name: str, like: Tensor, fill: float = 0.0) -> Tensor:
        """A vector of this optimizer in the server's state, allocated at its first use."""
        key = f"optim.{name}"
        if key not in server.state:
            server.state[key] = torch.full_like(like, fill)
        return server.state[key]


def build_server_optimizer(config: Mapping | None) -> ServerOptimizer:
    """Build from a config; None is SGD with lr 1, that is plain averaging."""
    return build(SERVER_OPTIMIZERS, config or {"type": "SGD"}, "algorithm.server_optim")


@SERVER_OPTIMIZERS.register_module()
class SGD(ServerOptimizer):
    """``m <- momentum m + Delta``, ``w <- w - lr m``.

    Args:
        lr: server learning rate.
        momentum: 0 is FedAvg, 0.9 the usual FedAvgM (Hsu et al. 2019).
    """

    def __init__(self, lr: PositiveFloat = 1.0, momentum: Decay = 0.0) -> None:
        self.lr = lr
        self.momentum = momentum

    def step(self, server: Server, delta: Tensor) -> None:
        if self.momentum:
            buffer = self.vector(server, "momentum", delta)
            delta = buffer.mul_(self.momentum).add_(delta)
        descend(server.w, delta if self.lr == 1 else delta * self.lr)


class _Adaptive(ServerOptimizer):
    def __init__(self, lr: float, betas: tuple[float, float], tau: float) -> None:
        self.lr = lr
        self.betas = betas
        self.tau = tau

    def second_moment(self, v: Tensor, square: Tensor) -> None:
        """Update ``v`` in place with the squared pseudo-gradient."""
        raise NotImplementedError

    def step(self, server: Server, delta: Tensor) -> None:
        beta1 = self.betas[0]
        m = self.vector(server, "first_moment", delta)
        v = self.vector(server, "second_moment", delta, fill=self.tau**2)
        m.mul_(beta1).add_(delta, alpha=1 - beta1)
        self.second_moment(v, delta * delta)
        descend(server.w, self.lr * m / (v.sqrt() + self.tau))


@SERVER_OPTIMIZERS.register_module()
class Adam(_Adaptive):
    """FedAdam: ``v <- beta2 v + (1 - beta2) Delta^2``.

    Args:
        lr: server learning rate.
        betas: decay of the first and the second moment.
        tau: degree of adaptivity, added to the root.
    """

    def __init__(
        self,
        lr: PositiveFloat = 0.01,
        betas: tuple[Decay, Decay] = (0.9, 0.99),
        tau: Positive = 1e-3,
    ) -> None:
        super().__init__(lr, betas, tau)

    def second_moment(self, v: Tensor, square: Tensor) -> None:
        v.mul_(self.betas[1]).add_(square, alpha=1 - self.betas[1])


@SERVER_OPTIMIZERS.register_module()
class Yogi(Adam):
    """FedYogi: ``v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)``. Arguments as :class:`Adam`."""

    def second_moment(self, v: Tensor, square: Tensor) -> None:
        v.sub_(square * torch.sign(v - square), alpha=1 - self.betas[1])


@SERVER_OPTIMIZERS.register_module()
class Adagrad(_Adaptive):
    """FedAdagrad: ``v <- v + Delta^2``.

    Args:
        lr: server learning rate.
        beta1: decay of the first moment; 0 in the paper's experiments.
        tau: degree of adaptivity, added to the root.
    """

    def __init__(self, lr: PositiveFloat = 0.1, beta1: Decay = 0.0, tau: Positive = 1e-3) -> None:
        super().__init__(lr, (beta1, 0.0), tau)

    def second_moment(self, v: Tensor, square: Tensor) -> None:
        v.add_(square)


@SERVER_OPTIMIZERS.register_module()
class Torch(ServerOptimizer):
    """SGD, Adam or Adagrad of ``torch.optim``, with the pseudo-gradient as its gradient.

    FedDrive's Adam and Adagrad are these: with bias correction, ``eps`` beside the root.

    Args:
        optimizer: its ``type`` and options, as ``dict(type="Adam", lr=1.0, eps=0.1)``.
    """

    def __init__(self, optimizer: Mapping) -> None:
        check_torch_optimizer(FIELD, optimizer, TORCH_OPTIMIZERS)
        check_values(optimizer, {"lr": Positive}, FIELD)
        self.config = optimizer
        self._build(torch.zeros(1))  # raises what torch says of its options

    def _build(self, parameter: Tensor) -> torch.optim.Optimizer:
        return build(OPTIMIZERS, self.config, FIELD, injected={"params": [parameter]})

    def step(self, server: Server, delta: Tensor) -> None:
        start = server.w.to(delta.dtype)
        w = start.clone()
        # Nesterov's momentum is added to the gradient in place where torch goes by lists of tensors
        w.grad = delta.clone()
        optimizer = self._build(w)
        state = optimizer.state[w]
        for key, vector in server.state.items():
            if key.startswith("optim."):
                state[key.removeprefix("optim.")] = vector
        optimizer.step()
        for name, vector in state.items():
            if vector is not None:  # SGD's buffer without momentum
                server.state[f"optim.{name}"] = vector
        descend(server.w, start - w)
