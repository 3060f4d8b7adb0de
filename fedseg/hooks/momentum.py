"""Momentum that outlives rounds and clients, as in the code released with FedAlign.

Mendieta et al., "Local Learning Matters: Rethinking Data Heterogeneity in Federated Learning", CVPR
2022. Each of its threads trains a round's first, second, ... participant with one optimizer for the
whole run. With all clients in every round, each continues with its own momentum; with sampled
clients, the i-th continues with that of the last round's i-th.
"""

from typing import Any

import torch
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.registry import HOOKS

BUFFER = "momentum_buffer"


@HOOKS.register_module()
class KeptMomentum(FederatedHook):
    """SGD's momentum passes from a round's i-th participant to the next round's i-th.

    An aborted round leaves it unchanged, and so does a client whose update is rejected.
    """

    in_process = True
    priority = "VERY_HIGH"  # a round that another hook stops counts, and so does its momentum

    def register_stores(self, runner: Run) -> None:
        self._store = runner.open_store("momentum", "memory")

    def before_train(self, runner: Run) -> None:
        optimizer = runner.optim_wrapper.optimizer
        if not isinstance(optimizer, torch.optim.SGD) or not optimizer.defaults["momentum"]:
            raise ConfigError(
                "custom_hooks: KeptMomentum keeps the momentum of SGD, and optim_wrapper.optimizer "
                "has none: set its momentum, or leave the hook out"
            )
        if getattr(runner.algorithm, "count_momentum", False):
            raise ConfigError(
                "custom_hooks: KeptMomentum contradicts algorithm.count_momentum, which assumes "
                "momentum that starts anew with every client: leave one of them out"
            )
        if getattr(runner.algorithm, "personal_share", 0):
            raise ConfigError(
                "custom_hooks: KeptMomentum contradicts algorithm.personal_share, whose two phases "
                "start without momentum: leave the hook out"
            )

    def before_client(self, runner: Run, client: Client) -> None:
        buffers = self._store.get(_position(runner, client))
        for name, parameter in _parameters(client).items():
            if name in buffers:
                kept = buffers[name].to(parameter.device, copy=True)
                client.local.optimizer.state[parameter][BUFFER] = kept

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        states = client.local.optimizer.state
        buffers = {n: states[p].get(BUFFER) for n, p in _parameters(client).items()}
        if all(buffer is not None for buffer in buffers.values()):
            self._store.stage(_position(runner, client), buffers)

    def after_round(self, runner: Run, record: dict[str, Any]) -> None:
        last = len(runner.algorithm.exchanges) - 1  # whose state counts; one may be rejected before
        rejected = {e["client"] for e in record["rejected"] if e["exchange"] == last}
        for position, index in enumerate(runner.client_sampler.participants(runner.round)):
            if runner.data.clients[index] in rejected:
                self._store.discard(str(position))
        self._store.commit(runner.round)

    def on_interrupt(self, runner: Run) -> None:
        self._store.discard()


def _position(runner: Run, client: Client) -> str:
    """A client's position among the round's participants, from 0."""
    return str(runner.client_sampler.participants(client.round).index(client.index))


def _parameters(client: Client) -> dict[str, Tensor]:
    """The optimizer's parameters by their number."""
    groups = client.local.optimizer.param_groups
    return {str(i): p for i, p in enumerate(p for group in groups for p in group["params"])}
