"""Robust aggregation: a few bad clients cannot move the global model far.

All participants have the same weight. A rule treats everything that they send: vectors, payloads,
BatchNorm's statistics and counters. What it cannot treat is refused: numbers of single clients,
payloads whose rows have weights, sums by weights that clients send. A rule keeps the updates of a
round, so memory grows with their number.

Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018
(median, trimmed mean); Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant
Gradient Descent", NeurIPS 2017 (Krum).
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import torch
from annotated_types import Interval
from mmengine.logging import print_log
from torch import Tensor

from fedseg.core.algorithm import Algorithm
from fedseg.core.messages import ClientResult, Payload
from fedseg.core.server import Aggregate, accumulation_dtype
from fedseg.errors import ConfigError
from fedseg.registry import AGGREGATES
from fedseg.units import floor_share

COUNTER = "counter "  # before the name of an integer buffer
BelowHalf = Annotated[float, Interval(ge=0, lt=0.5)]


class RobustRule:
    """Base: called with the weightings of an algorithm it gives a round's aggregate."""

    single_updates = True

    def __call__(self, weightings: tuple[str, ...] = ("samples",)) -> "RobustAggregate":
        return RobustAggregate(self, weightings)

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        """One vector [D] for those of the participants [N, D]; their deltas are [N, D'], too."""
        raise NotImplementedError


def check_treatable(algorithm: Algorithm, payloads: Iterable[Payload]) -> None:
    """Raise ConfigError for what a rule cannot treat: weights that clients send."""
    own = sorted({*algorithm.weightings} - {"samples", "uniform"})
    if own:
        raise ConfigError(
            f"robust: {type(algorithm).__name__} sums updates by weights that clients send "
            f"({', '.join(own)}), which no rule bounds: take another algorithm, or robust=None"
        )
    for payload in payloads:
        if payload.weighting not in ("samples", "uniform"):
            raise ConfigError(
                f"robust: {payload.name} has weights that clients send ({payload.weighting}), "
                "which no rule bounds: leave out what declares it, or set robust=None"
            )


class RobustAggregate(Aggregate):
    """Gives a rule's vector wherever an algorithm asks for a mean, and that times the weights."""

    single_updates = True

    def __init__(self, rule: RobustRule, weightings: tuple[str, ...]) -> None:
        super().__init__(weightings)
        self._rule = rule
        self._sent_tensors: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._combined: dict[str, Tensor] = {}

    def add(self, *parts: ClientResult) -> None:
        self._combined.clear()
        for part in parts:
            if part.update.numbers:
                raise ConfigError(
                    f"robust: {', '.join(part.update.numbers)}: no rule bounds numbers of single "
                    "clients: take another algorithm, or robust=None"
                )
            # nobody reads sums of what the rule treats, only the weights
            counted = replace(part.update, vectors={})
            super().add(replace(part, update=counted, buffers=part.buffers[:0], counters={}))
            sent = {**part.update.vectors, **part.update.payloads, "buffers": part.buffers}
            sent |= {COUNTER + name: counter for name, counter in part.counters.items()}
            for name, tensor in sent.items():
                self._sent_tensors[name].append(tensor.clone())

    def mean(self, name: str = "delta") -> Tensor:
        if name not in self._sent_tensors:
            return super().mean(name)  # an error with the names of what was sent
        if name not in self._combined:
            self._combined[name] = self._combine(name)
        return self._combined[name]

    def _combine(self, name: str) -> Tensor:
        """The rule's tensor for those of all participants, float64, in their shape."""
        tensors = self._sent_tensors[name]
        if len(tensors) < self.num_clients:
            raise ConfigError(
                f"robust: {name}: {self.num_clients - len(tensors)} of {self.num_clients} "
                "participants do not send it, and a rule needs that of all: set robust=None"
            )
        dtype = accumulation_dtype(tensors[0].device)
        vectors = torch.stack([tensor.flatten() for tensor in tensors]).to(dtype)
        deltas = vectors
        if "delta" in self._sent_tensors:
            deltas = torch.stack(self._sent_tensors["delta"]).to(dtype)
        combined = self._rule.combine(vectors, deltas)
        if not isinstance(combined, Tensor) or combined.shape != vectors[0].shape:
            kind, shape = type(combined).__name__, [*getattr(combined, "shape", ())]
            raise ConfigError(
                f"robust: {type(self._rule).__name__}.combine must return a tensor "
                f"{[*vectors[0].shape]}, not {kind} {shape}"
            )
        return combined.view(tensors[0].shape)

    def counters(self) -> dict[str, Tensor]:
        names = [name for name in self._sent_tensors if name.startswith(COUNTER)]
        return {name.removeprefix(COUNTER): self.mean(name).round().long() for name in names}

    def uniform_mean(self, name: str = "delta") -> Tensor:
        return self.mean(name).clone()  # unlike the mean it is the caller's to change

    def weighted_sum(self, name: str, weighting: str) -> Tensor:
        return self.mean(name) * self.weights[weighting]


@AGGREGATES.register_module()
class CoordinateMedian(RobustRule):
    """The median of every entry; of an even number of participants the mean of the middle two."""

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        ordered, middle = vectors.sort(dim=0).values, (len(vectors) - 1) // 2
        return (ordered[middle] + ordered[len(vectors) // 2]) / 2


@AGGREGATES.register_module()
class TrimmedMean(RobustRule):
    """The mean of every entry without its largest and smallest values.

    Args:
        share: of the participants to leave out at each end, rounded down; 0 is the mean.
    """

    def __init__(self, share: BelowHalf = 0.2) -> None:
        self.share = share

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        cut = floor_share(self.share, len(vectors))
        return vectors.sort(dim=0).values[cut : len(vectors) - cut].mean(dim=0)


@AGGREGATES.register_module()
class Krum(RobustRule):
    """The update of one participant: whose delta is closest to its ``N - f - 2`` nearest others.

    Args:
        share: of the participants that may be bad; f is that of N, rounded down. The paper's
            guarantee needs ``N >= 2 f + 3``; a run warns once if that does not hold.
    """

    def __init__(self, share: BelowHalf = 0.2) -> None:
        self.share, self._told = share, False

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        bad = floor_share(self.share, len(deltas))
        if len(deltas) < 2 * bad + 3 and not self._told:
            self._told = True
            print_log(
                f"robust: Krum of {len(deltas)} participants, {bad} of them bad, has no "
                f"guarantee: it needs {2 * bad + 3}",
                logger="current",
                level=logging.WARNING,
            )
        nearest = max(1, len(deltas) - bad - 2)
        distances = torch.stack([(deltas - one).square().sum(dim=1) for one in deltas])
        # the first in each row is the participant itself
        scores = distances.sort(dim=1).values[:, 1 : 1 + nearest].sum(dim=1)
        return vectors[int(scores.argmin())]
