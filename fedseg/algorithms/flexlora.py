"""FlexLoRA and FedEx-LoRA: the server averages the products of adapters, not their factors.

Bai et al., "Federated Fine-tuning of Large Language Models under Heterogeneous Tasks and Client
Resources", NeurIPS 2024 (FlexLoRA, here with one rank for all); Singhal et al., "FedEx-LoRA: Exact
Aggregation for Federated and Efficient Fine-Tuning of Foundation Models", ACL 2025.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedseg.algorithms.fedavg import FedAvg
from fedseg.core.aggregate import Aggregate, Weightings
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel, Slot
from fedseg.core.messages import ClientResult, Message, Payload
from fedseg.core.server import Server
from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS

RESIDUAL = "residual"


@dataclass(frozen=True)
class Adapter:
    """The places of one layer's factors in the model's vector.

    Attributes:
        a: of A, [r, in] or a convolution's [r, in, height, width].
        b: of B, [out, r] or [out, r, 1, 1].
    """

    a: Slot
    b: Slot

    def factors(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """(B [out, r], A [r, in]) in a vector like ``w``, float64."""
        return self.b.view(vector).double().flatten(1), self.a.view(vector).double().flatten(1)

    def write(self, vector: Tensor, b: Tensor, a: Tensor) -> None:
        """Write factors of rank at most r; the other columns of B are 0, rows of A stay."""
        rank = len(a)
        views = self.b.view(vector), self.a.view(vector)
        views[0].zero_()
        views[0][:, :rank] = b.view(len(b), rank, *self.b.shape[2:]).to(vector)
        views[1][:rank] = a.view(rank, *self.a.shape[1:]).to(vector)


class AdapterAggregate(Aggregate):
    """Keeps the factors of every client besides the sums.

    Args:
        weightings: as :class:`Aggregate`.
        adapters: of each layer.
        start: what the participants started from.
    """

    def __init__(
        self, weightings: Weightings, adapters: Mapping[str, Adapter], start: Tensor
    ) -> None:
        super().__init__(weightings)
        self._adapters = adapters
        self._start = start
        self._b: dict[str, list[Tensor]] = {layer: [] for layer in adapters}
        self._a: dict[str, list[Tensor]] = {layer: [] for layer in adapters}

    def add(self, result: ClientResult) -> None:
        super().add(result)
        trained = self._start - result.update.vectors["delta"]
        for layer, adapter in self._adapters.items():
            b, a = adapter.factors(trained)
            self._b[layer].append(b * result.task.num_samples)
            self._a[layer].append(a)

    def product(self, layer: str) -> tuple[Tensor, Tensor]:
        """``sum_S N_k/N B_k A_k`` as the product of [out, n r] and [n r, in]."""
        b = torch.cat(self._b[layer], dim=1) / self.weights["samples"]
        return b, torch.cat(self._a[layer], dim=0)


class AdapterAlgorithm(FedAvg):
    """Base: FedAvg for what has no adapter, and a rule for the products of the adapters."""

    needs_every_update = True

    def __init__(self) -> None:
        super().__init__()

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        kind = type(self).__name__
        slots = {slot.name: slot for slot in flat.slots}
        self.adapters: dict[str, Adapter] = {}
        for name, slot in slots.items():
            if ".lora_A." in name:
                layer = name.partition(".lora_A.")[0]
                self.adapters[layer] = Adapter(a=slot, b=slots[name.replace("lora_A", "lora_B")])
        if not self.adapters:
            raise ConfigError(
                f"model.lora: {kind} needs adapters whose A and B are both trained: set it, "
                "without fixed_A"
            )
        names = {slot.name for adapter in self.adapters.values() for slot in (adapter.a, adapter.b)}
        if self.local_state is not None and names & self.local_state.parameter_names:
            raise ConfigError(
                f"personal: {kind} averages products of A and B: share both, or use FedAvg"
            )

    def broadcast(self, server: Server) -> Message:
        self._start = server.w.clone()
        return super().broadcast(server)

    def new_aggregate(self) -> AdapterAggregate:
        return AdapterAggregate(self.weightings, self.adapters, self._start)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """FedAvg's step for the whole vector, then the rule for the adapters."""
        if not isinstance(aggregate, AdapterAggregate):
            raise TypeError(
                f"{type(self).__name__} needs AdapterAggregate, not {type(aggregate).__name__}"
            )
        super().step(server, aggregate)
        self.step_adapters(server, aggregate)

    @abstractmethod
    def step_adapters(self, server: Server, aggregate: AdapterAggregate) -> None:
        """Change the model of FedAvg by the products of the clients' adapters."""


@ALGORITHMS.register_module()
class FlexLoRA(AdapterAlgorithm):
    """``P = sum_S N_k/N B_k A_k`` of every layer, and its best approximation of rank r.

    With ``P = U S V^T`` clients receive ``B = U_r S_r`` and ``A = V_r^T``; what has no adapter (the
    head) is averaged. Where r is more than the rank of P can be, the other rows of A are averaged
    and the other columns of B are zero. What is sent are the factors, as without it.
    """

    def step_adapters(self, server: Server, aggregate: AdapterAggregate) -> None:
        for layer, adapter in self.adapters.items():
            b, a = low_rank(*aggregate.product(layer), rank=adapter.a.shape[0])
            adapter.write(server.w, b, a)


@ALGORITHMS.register_module()
class FedExLoRA(AdapterAlgorithm):
    """A and B are averaged, and the residual ``P - B A`` goes into the frozen weights: exact.

    Clients receive the sum of all residuals so far, which is as large as those weights.
    """

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        # peft's LoraLayer, which is optional
        layers: list[Any] = [flat.model.get_submodule(name) for name in self.adapters]
        self._scale = layers[0].scaling["default"]
        self._frozen = [layer.get_base_layer().weight for layer in layers]
        self._initial = [weight.detach().clone() for weight in self._frozen]
        size = sum(weight.numel() for weight in self._frozen)
        self.payloads = [Payload(RESIDUAL, (size,), broadcast=True)]

    def begin(self, client: Client) -> None:
        self.load(client.payloads)

    def load(self, payloads: Mapping[str, Tensor]) -> None:
        parts = payloads[RESIDUAL].split([weight.numel() for weight in self._frozen])
        for weight, initial, part in zip(self._frozen, self._initial, parts, strict=True):
            weight.data.copy_(initial + part.view(initial.shape))

    def step_adapters(self, server: Server, aggregate: AdapterAggregate) -> None:
        residuals = []
        for layer, adapter in self.adapters.items():
            b_of_clients, a_of_clients = aggregate.product(layer)
            b, a = adapter.factors(server.w)
            residuals.append((b_of_clients @ a_of_clients - b @ a).flatten())
        server.state[RESIDUAL] += self._scale * torch.cat(residuals)
        self.load({RESIDUAL: server.state[RESIDUAL].to(server.w.dtype)})


def low_rank(b: Tensor, a: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(``U_r S_r``, ``V_r^T``) of the singular value decomposition of ``b @ a``.

    The product is never formed: with QR decompositions of both factors only their small core has
    to be decomposed.

    Args:
        b: [out, n].
        a: [n, in].
        rank: r; fewer where the product has a smaller rank by its shape.
    """
    q_b, r_b = torch.linalg.qr(b)
    q_a, r_a = torch.linalg.qr(a.mT)
    u, s, v = torch.linalg.svd(r_b @ r_a.mT, full_matrices=False)
    rank = min(rank, len(s))
    return q_b @ (u[:, :rank] * s[:rank]), v[:rank] @ q_a.mT
