"""Algorithms for parts that stay with each client.

FedRep: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning",
ICML 2021, algorithm 1. FedBABU: Oh et al., "FedBABU: Toward Enhanced Representation for Federated
Image Classification", ICLR 2022. Ditto: Li et al., "Ditto: Fair and Robust Federated Learning
Through Personalization", ICML 2021, algorithm 1.
"""

from collections.abc import Mapping

import torch

from fedseg.algorithms.fedavg import FedAvg
from fedseg.batchnorm import frozen_running_statistics
from fedseg.config.schema import NonNegative, Share
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.optim import OptimWrapper
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedRep(FedAvg):
    """Each client trains its personal part first, then the shared one, with the other part fixed.

    A fixed part has no gradient: SAM and clipping see the other part alone. Its momentum, which
    weight decay gives it, changes nothing, since the second phase starts with a new optimizer.

    Args:
        personal_share: share of the local steps, from the first on, that train the personal part;
            10 of 11 epochs in the paper. 0 is FedBABU's training: the personal part keeps its
            initial values.
    """

    def __init__(self, personal_share: Share = 0.5, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.personal_share = personal_share

    def check(self, local: OptimWrapper, flat: FlatModel) -> None:
        if flat.personal is None:
            raise ConfigError(
                "personal: FedRep needs a part that stays with the clients, such as '@head'"
            )

    def bind(self, flat: FlatModel) -> None:
        self._shared, named = ~flat.personal, flat.model.named_parameters()
        self._parts = [(p, n in flat.personal_names) for n, p in named if p.requires_grad]

    def begin(self, client: Client) -> None:
        self._before = client.w.clone()
        self._hold(client, 0)

    def _hold(self, client: Client, step: int) -> None:
        """Leave the part that a step does not train without gradients."""
        first = step < round(self.personal_share * client.num_steps)
        self._held = self._shared if first else client.flat.personal
        for parameter, personal in self._parts:
            parameter.requires_grad_(personal == first)

    def finish(self, client: Client) -> Update:
        for parameter, _ in self._parts:
            parameter.requires_grad_()
        return super().finish(client)

    def after_step(self, client: Client) -> None:
        torch.where(self._held, self._before, client.w, out=client.w)
        self._before.copy_(client.w)
        held = self._held
        self._hold(client, client.step + 1)
        if self._held is not held:
            client.local.reset_state()


@ALGORITHMS.register_module()
class Ditto(FedAvg):
    """FedAvg, and every client also trains its own model, pulled towards the received one.

    After each local step the client's model, which starts from the first received one, takes a step
    of plain SGD on the same minibatch, with each parameter's rate: ``v <- v - eta (g(v) + lam (v -
    w_received))``. BatchNorm normalizes by the batch, its statistics are the received model's.

    Args:
        lam: strength of the pull; 0: local training alone.
    """

    own_model = "own_model"
    gradients = 2

    def __init__(self, lam: NonNegative = 0.1, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.lam = lam

    def bind(self, flat: FlatModel) -> None:
        self._trained = torch.empty_like(flat.w)

    def begin(self, client: Client) -> None:
        client.state.setdefault(self.own_model, client.start.clone())

    def after_step(self, client: Client) -> None:
        personal = client.state[self.own_model]
        self._trained.copy_(client.w)
        client.w.copy_(personal)
        with frozen_running_statistics(client.model), torch.enable_grad():
            client.backward(replay=True)
        client.grad.add_(personal - client.start, alpha=self.lam)
        for group in client.local.optimizer.param_groups:
            for part in (p for p in group["params"] if p.grad is not None):  # w, or views of it
                part.data.add_(part.grad, alpha=-group["lr"])
        personal.copy_(client.w)
        client.w.copy_(self._trained)
