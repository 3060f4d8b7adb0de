"""FedAvg and FedOpt: the server descends along the averaged pseudo-gradient.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
2017, algorithm 1; Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithms 1 and 2.
"""

from collections.abc import Mapping

from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.server import Server
from fedseg.optim.server import build_server_optimizer
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedAvg(Algorithm):
    """``w <- ServerOpt(w, Delta)`` with ``Delta = sum_S N_k/N (w - w_k)``.

    Args:
        server_optim: the server optimizer. ``SGD`` with lr 1 is FedAvg, with momentum FedAvgM;
            ``Adam``, ``Adagrad``, ``Yogi`` are FedAdam, FedAdagrad, FedYogi.
        uniform: clients have equal weights in Delta, whatever their N_k.
    """

    def __init__(self, server_optim: Mapping | None = None, uniform: bool = False) -> None:
        self.server_optim = build_server_optimizer(server_optim)
        self.uniform = uniform
        if uniform:
            self.weightings = {"delta": "uniform"}

    def step(self, server: Server, aggregate: Aggregate) -> None:
        self.server_optim.step(server, aggregate.mean("delta"))
