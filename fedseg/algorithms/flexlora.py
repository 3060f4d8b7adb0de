"""FlexLoRA and FedEx-LoRA: the server averages the products of adapters, not their factors.

Bai et al., "Federated Fine-tuning of Large Language Models under Heterogeneous Tasks and Client
Resources", NeurIPS 2024 (FlexLoRA, here with one rank for all); Singhal et al., "FedEx-LoRA: Exact
Aggregation for Federated and Efficient Fine-Tuning of Foundation Models", ACL 2025.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedseg.algorithms.fedavg import FedAvg
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel, Slot
from fedseg.core.messages import ClientResult, Message, Payload
from fedseg.core.server import Aggregate, Server, accumulation_dtype
from fedseg.errors import ConfigError
from fedseg.optim import OptimWrapper
from fedseg.registry import ALGORITHMS

RESIDUAL = "residual"


@ALGORITHMS.register_module()
class FlexLoRA(FedAvg):
    """``P = sum_S N_k/N B_k A_k`` of every layer, and its best approximation of rank r.

    With ``P = U S V^T`` clients receive ``B = U_r S_r`` and ``A = V_r^T``; what has no adapter (the
    head) is averaged. Where r is more than the rank of P can be, the other rows of A are averaged
    and the other columns of B are zero. What is sent are the factors, as without it.

    Args:
        fedex: FedEx-LoRA instead: A and B are averaged, and the residual ``P - B A`` goes into the
            frozen weights, so that the round is exact. Clients receive all residuals so far, which
            are as large as those weights.
    """

    aggregate = None  # Products, once the layers are known

    def __init__(self, fedex: bool = False) -> None:
        super().__init__()
        self.fedex = fedex

    def check(self, local: OptimWrapper, flat: FlatModel) -> None:
        slots = {slot.name: slot for slot in flat.slots}
        self._pairs = {
            name.partition(".lora_A.")[0]: (slot, slots[name.replace(".lora_A.", ".lora_B.")])
            for name, slot in slots.items()
            if ".lora_A." in name
        }
        if not self._pairs:
            raise ConfigError(
                "model.lora: FlexLoRA needs adapters whose A and B are both trained: set it, "
                "without fixed_A"
            )
        if flat.personal is not None and any(
            flat.personal[slot.span].any() for pair in self._pairs.values() for slot in pair
        ):
            raise ConfigError(
                "personal: FlexLoRA averages products of A and B: share both, or use FedAvg"
            )

    def bind(self, flat: FlatModel) -> None:
        self.aggregate = Products(self._pairs)
        layers = {name: flat.model.get_submodule(name) for name in self._pairs}
        self._scale = next(iter(layers.values())).scaling["default"]
        self._bases = [layer.get_base_layer().weight for layer in layers.values()]
        if self.fedex:
            self._before = [base.detach().clone() for base in self._bases]
            size = sum(base.numel() for base in self._bases)
            self.payloads = [Payload(RESIDUAL, (size,), broadcast=True)]

    def broadcast(self, server: Server) -> Message:
        self.aggregate.start = server.w
        return super().broadcast(server)

    def begin(self, client: Client) -> None:
        self.receive(client.payloads)

    def receive(self, payloads: Mapping[str, Tensor]) -> None:
        """Bring the frozen weights to where the server's are."""
        if self.fedex:
            parts = payloads[RESIDUAL].split([base.numel() for base in self._bases])
            for base, before, part in zip(self._bases, self._before, parts, strict=True):
                base.data.copy_(before + part.view(before.shape))

    def step(self, server: Server, updates: "ProductSums") -> None:
        super().step(server, updates)
        residuals = []
        for layer, (a, b) in self._pairs.items():
            product, views = updates.product(layer), (a.view(server.w), b.view(server.w))
            if self.fedex:
                residuals.append(product - _product(server.w, a, b))
                continue
            left, values, right = torch.linalg.svd(product, full_matrices=False)
            rank = min(a.shape[0], len(values))
            views[0][:rank] = right[:rank].view(rank, *a.shape[1:]).to(server.w)
            views[1].zero_()
            columns = (left[:, :rank] * values[:rank]).to(server.w)
            views[1][:, :rank] = columns.view(-1, rank, *b.shape[2:])
        if self.fedex:
            server.state[RESIDUAL] += self._scale * torch.cat([r.flatten() for r in residuals])
            self.receive({RESIDUAL: server.state[RESIDUAL].to(server.w.dtype)})


class Products:
    """Gives a round's aggregate; ``start`` is what the participants started from."""

    single_updates = True

    def __init__(self, pairs: Mapping[str, tuple[Slot, Slot]]) -> None:
        self.pairs = pairs
        self.start: Tensor | None = None

    def __call__(self, weightings: tuple[str, ...] = ("samples",)) -> "ProductSums":
        return ProductSums(self, weightings)


class ProductSums(Aggregate):
    """Sums up ``N_k B_k A_k`` of every layer besides."""

    single_updates = True

    def __init__(self, rule: Products, weightings: tuple[str, ...]) -> None:
        super().__init__(weightings)
        self._rule = rule
        self._products: dict[str, Tensor] = {}

    def add(self, *parts: ClientResult) -> None:
        super().add(*parts)
        for part in parts:
            trained = self._rule.start - part.update.vectors["delta"]
            for layer, pair in self._rule.pairs.items():
                product = _product(trained, *pair) * part.task.num_samples
                self._products[layer] = self._products.get(layer, 0) + product

    def product(self, layer: str) -> Tensor:
        """``sum_S N_k/N B_k A_k``, of weights as they are flattened, [out, in]."""
        return self._products[layer] / self.weights["samples"]


def _product(vector: Tensor, a: Slot, b: Slot) -> Tensor:
    dtype = accumulation_dtype(vector.device)
    return b.view(vector).to(dtype).flatten(1) @ a.view(vector).to(dtype).flatten(1)
