"""Ditto: a model of its own for every client, pulled towards the global one.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
algorithm 1.
"""

from collections.abc import Mapping

import torch

from fedseg.algorithms.fedavg import FedAvg
from fedseg.batchnorm import batchnorm_layers, frozen_running_statistics
from fedseg.config.arguments import NonNegative
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Exchange
from fedseg.registry import ALGORITHMS


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
    exchanges = (Exchange(gradients=2),)

    def __init__(self, lam: NonNegative = 0.1, server_optim: Mapping | None = None) -> None:
        super().__init__(server_optim)
        self.lam = lam

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        self._trained = torch.empty_like(flat.w)
        self._batchnorm_layers = list(batchnorm_layers(flat.model).values())

    def begin(self, client: Client) -> None:
        client.state.setdefault(self.own_model, client.start.clone())

    def after_step(self, client: Client) -> None:
        personal = client.state[self.own_model]
        self._trained.copy_(client.w)
        client.w.copy_(personal)
        with frozen_running_statistics(self._batchnorm_layers), torch.enable_grad():
            client.backward(replay=True)
        # g(v) + lam (v - w_received)
        client.grad.add_(personal - client.start, alpha=self.lam)
        for group in client.local.optimizer.param_groups:
            for parameter in group["params"]:  # w, or views of it
                if parameter.grad is not None:
                    parameter.data.add_(parameter.grad, alpha=-group["lr"])
        personal.copy_(client.w)
        client.w.copy_(self._trained)
