"""Running sums over the updates of an exchange, and what the server gets of each client."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from fedseg.core.messages import ClientResult, Size, Task

# by which weights each vector of an update is summed: the name of a weighting, or several
Weightings = Mapping[str, str | tuple[str, ...]]

Key = TypeVar("Key")  # of a sum: the vector's name and its weighting, or the name of a buffer


def weightings_of(weightings: Weightings, name: str) -> tuple[str, ...]:
    """The weightings of a vector, also of a single one."""
    declared = weightings[name]
    return (declared,) if isinstance(declared, str) else tuple(declared)


@dataclass
class WeightedSum:
    """A running sum ``sum_k a_k v_k``.

    Attributes:
        total: the sum, float64.
        weight: the sum of the weights ``sum_k a_k``.
    """

    total: Tensor
    weight: float

    @classmethod
    def start(cls, vector: Tensor, weight: float) -> "WeightedSum":
        """A sum of one term; the vector is not changed."""
        return cls(total=vector.to(torch.float64, copy=True).mul_(weight), weight=weight)

    def add(self, vector: Tensor, weight: float) -> None:
        """Add a term."""
        self.total.add_(vector, alpha=weight)
        self.weight += weight

    def merge(self, other: "WeightedSum") -> None:
        """Add the terms of another sum."""
        self.total.add_(other.total)
        self.weight += other.weight

    def copy(self) -> "WeightedSum":
        """The same sum in memory of its own."""
        return WeightedSum(self.total.clone(), self.weight)

    def mean(self) -> Tensor:
        """``sum_k a_k v_k / sum_k a_k``, a new tensor."""
        return self.total / self.weight


def _add(sums: dict[Key, WeightedSum], key: Key, vector: Tensor, weight: float) -> None:
    if key in sums:
        sums[key].add(vector, weight)
    else:
        sums[key] = WeightedSum.start(vector, weight)


def _merge(sums: dict[Key, WeightedSum], key: Key, other: WeightedSum) -> None:
    if key in sums:
        sums[key].merge(other)
    else:
        sums[key] = other.copy()


class Aggregate:
    """Running sums over the accepted updates of an exchange; memory is that of the sums alone.

    Every vector is summed by the weightings that the algorithm declares
    (``Algorithm.weightings``), every payload without a weight, BatchNorm's buffers and counters by
    samples. Sums are float64.

    Args:
        weightings: for every vector ``"samples"`` (N_k), ``"uniform"`` (1), or a name for which
            each update brings its weight; several as a tuple.

    Attributes:
        num_clients: updates added.
        weights: the sum of their weights, by weighting.
        numbers: what clients sent in ``Update.numbers``, by name and the client's position.
    """

    def __init__(self, weightings: Weightings) -> None:
        self.num_clients = 0
        self.weights: dict[str, float] = defaultdict(float)
        self.numbers: dict[str, dict[int, float]] = {}
        self._weightings = weightings
        self._vectors: dict[tuple[str, str], WeightedSum] = {}
        self._payloads: dict[str, Tensor] = {}
        self._buffers: dict[str, WeightedSum] = {}  # of "buffers" and "counters", by samples

    @torch.no_grad()
    def add(self, result: ClientResult) -> None:
        """Add one accepted update to the declared sums."""
        update, samples = result.update, result.task.num_samples
        weights = {"samples": samples, "uniform": 1, **update.weights}
        self.num_clients += 1
        self._add_weights(weights)
        for name, vector in update.vectors.items():
            for weighting in weightings_of(self._weightings, name):
                _add(self._vectors, (name, weighting), vector, weights[weighting])
        for name, payload in update.payloads.items():
            self._add_payload(name, payload)
        for name, number in update.numbers.items():
            self.numbers.setdefault(name, {})[result.task.client] = number
        _add(self._buffers, "buffers", result.buffers, samples)
        _add(self._buffers, "counters", result.counters, samples)

    def _add_weights(self, weights: Mapping[str, float]) -> None:
        for weighting, weight in weights.items():
            self.weights[weighting] += weight

    def _add_payload(self, name: str, payload: Tensor) -> None:
        if name in self._payloads:
            self._payloads[name].add_(payload)
        else:
            self._payloads[name] = payload.detach().to(torch.float64, copy=True)

    @torch.no_grad()
    def merge(self, block: "Aggregate") -> None:
        """Add the sums of a block of clients."""
        self.num_clients += block.num_clients
        self._add_weights(block.weights)
        for key, vector_sum in block._vectors.items():
            _merge(self._vectors, key, vector_sum)
        for name, buffer_sum in block._buffers.items():
            _merge(self._buffers, name, buffer_sum)
        for name, payload in block._payloads.items():
            self._add_payload(name, payload)
        for name, numbers in block.numbers.items():
            self.numbers.setdefault(name, {}).update(numbers)

    def mean(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        """The weighted mean of a vector over the clients that sent it, float64, a new tensor.

        Args:
            name: of the vector.
            weighting: one of those that are declared for it; None: the first.
        """
        return self._sum(name, weighting).mean()

    def total(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        """The weighted sum of a vector, float64 (do not change in place); arguments as `mean`."""
        return self._sum(name, weighting).total

    def _sum(self, name: str, weighting: str | None) -> WeightedSum:
        if weighting is None:
            weighting = weightings_of(self._weightings, name)[0]
        try:
            return self._vectors[name, weighting]
        except KeyError:
            kept = [f"{vector} ({weight})" for vector, weight in self._vectors]
            names = ", ".join(kept) or "nothing"
            message = f"no sum of {name!r} by {weighting!r} is kept, only of: {names}"
            raise KeyError(message) from None

    def payload(self, name: str) -> Tensor:
        """The sum of a payload, float64 (do not change in place); KeyError if nobody sent it."""
        return self._payloads[name]

    def buffers(self) -> Tensor:
        """The mean of the float buffers by samples, float64, a new tensor."""
        return self._buffers["buffers"].mean()

    def counters(self) -> Tensor:
        """The mean of the integer buffers by samples, rounded, int64, a new tensor."""
        return self._buffers["counters"].mean().round().long()


@dataclass
class Outcome:
    """The part of a client's result that the server needs.

    At most one of ``result`` and ``block`` is set: a client alone in its block has its result, the
    last client of a block of several the block's sums.

    Attributes:
        task: what the client had to do.
        state: what it keeps until its next round, by name.
        loss: mean loss over its local steps.
        size: of the update.
        norms: of what is sent, by name.
        reason: why the update is rejected; None: it is accepted.
        result: the accepted update of a client alone in its block.
        block: the sums of a block of clients, with its last client.
    """

    task: Task
    state: Mapping[str, Tensor]
    loss: float
    size: Size
    norms: Mapping[str, float]
    reason: str | None
    result: ClientResult | None = None
    block: Aggregate | None = None
