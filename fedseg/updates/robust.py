"""Robust aggregation: a few bad clients cannot move the global model far.

All participants have the same weight. A rule treats everything that they send: vectors, payloads,
BatchNorm's statistics and counters. What it cannot treat is refused: numbers of single clients,
and sums by weights that clients send. A rule keeps the updates of a round, so memory grows with
their number.

Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018
(median, trimmed mean); Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant
Gradient Descent", NeurIPS 2017 (Krum).
"""

import logging
from collections import defaultdict
from dataclasses import replace
from typing import Annotated

import torch
from annotated_types import Interval
from mmengine.logging import print_log
from torch import Tensor

from fedseg.core.aggregate import Aggregate, Weightings, weightings_of
from fedseg.core.algorithm import AggregationRule, Algorithm
from fedseg.core.messages import ClientResult
from fedseg.errors import ConfigError
from fedseg.registry import AGGREGATES
from fedseg.units import floor_share

BelowHalf = Annotated[float, Interval(ge=0, lt=0.5)]


class RobustRule(AggregationRule):
    """Base: one vector in place of a mean, which a few bad updates cannot move far."""

    needs_every_update = True

    def new_aggregate(self, algorithm: Algorithm) -> "RobustAggregate":
        return RobustAggregate(self, algorithm.weightings)

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        """One vector [D] for those of the participants [N, D]; their deltas are [N, D'], too."""
        raise NotImplementedError


def check_treatable(algorithm: Algorithm) -> None:
    """Raise ConfigError for what a rule cannot treat: weights that clients send."""
    declared: set[str] = set()
    for name in algorithm.weightings:
        declared.update(weightings_of(algorithm.weightings, name))
    sent = sorted(declared - {"samples", "uniform"})
    if sent:
        raise ConfigError(
            f"robust: {type(algorithm).__name__} sums updates by weights that clients send "
            f"({', '.join(sent)}), which no rule bounds: take another algorithm, or robust=None"
        )


class RobustAggregate(Aggregate):
    """Gives a rule's vector wherever an algorithm asks for a mean, and that times the weights.

    Payloads are treated likewise: a payload's sum is the rule's tensor times the participants.
    """

    def __init__(self, rule: RobustRule, weightings: Weightings) -> None:
        super().__init__(weightings)
        self._rule = rule
        self._sent: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._combined: dict[str, Tensor] = {}

    def add(self, result: ClientResult) -> None:
        update = result.update
        if update.numbers:
            raise ConfigError(
                f"robust: {', '.join(update.numbers)}: no rule bounds numbers of single clients: "
                "take another algorithm, or robust=None"
            )
        sent = {**update.vectors, **update.payloads}
        sent |= {"buffers": result.buffers, "counters": result.counters}
        for name, tensor in sent.items():
            self._sent[name].append(tensor.detach().clone())
        self._combined.clear()
        # nobody reads sums of what the rule treats, only the weights
        counted = replace(update, vectors={}, payloads={})
        super().add(
            replace(
                result,
                update=counted,
                buffers=result.buffers[:0],
                counters=result.counters[:0],
            )
        )

    def mean(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        return self._combine(name).clone()

    def total(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        if weighting is None:
            weighting = weightings_of(self._weightings, name)[0]
        return self._combine(name) * self.weights[weighting]

    def payload(self, name: str) -> Tensor:
        return self._combine(name) * self.num_clients

    def buffers(self) -> Tensor:
        return self._combine("buffers").clone()

    def counters(self) -> Tensor:
        return self._combine("counters").round().long()

    def _combine(self, name: str) -> Tensor:
        """The rule's tensor of what the participants sent under a name, float64."""
        if name not in self._combined:
            self._combined[name] = self._apply_rule(name)
        return self._combined[name]

    def _apply_rule(self, name: str) -> Tensor:
        sent = self._sent[name]
        if len(sent) < self.num_clients:
            raise ConfigError(
                f"robust: {name}: {self.num_clients - len(sent)} of {self.num_clients} "
                "participants do not send it, and a rule needs that of all: set robust=None"
            )
        vectors = torch.stack([tensor.flatten() for tensor in sent]).double()
        deltas = torch.stack(self._sent["delta"]).double() if "delta" in self._sent else vectors
        combined = self._rule.combine(vectors, deltas)
        if not isinstance(combined, Tensor) or combined.shape != vectors[0].shape:
            returned = list(getattr(combined, "shape", [])) or type(combined).__name__
            raise ConfigError(
                f"robust: {type(self._rule).__name__}.combine must return a tensor "
                f"{[*vectors[0].shape]}, not {returned}"
            )
        return combined.view(sent[0].shape)


@AGGREGATES.register_module()
class CoordinateMedian(RobustRule):
    """The median of every entry; of an even number of participants the mean of the middle two."""

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        ordered = vectors.sort(dim=0).values
        lower = ordered[(len(vectors) - 1) // 2]
        upper = ordered[len(vectors) // 2]
        return (lower + upper) / 2


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
        self.share = share
        self._has_warned = False

    def combine(self, vectors: Tensor, deltas: Tensor) -> Tensor:
        bad = floor_share(self.share, len(deltas))
        if len(deltas) < 2 * bad + 3 and not self._has_warned:
            self._has_warned = True
            print_log(
                f"robust: Krum of {len(deltas)} participants, {bad} of them bad, has no "
                f"guarantee: it needs {2 * bad + 3}",
                logger="current",
                level=logging.WARNING,
            )
        nearest = max(1, len(deltas) - bad - 2)
        distances = torch.stack([(deltas - delta).square().sum(dim=1) for delta in deltas])
        # the first in each row is the participant itself
        scores = distances.sort(dim=1).values[:, 1 : 1 + nearest].sum(dim=1)
        return vectors[int(scores.argmin())]
