"""Averages of the global model over rounds: evaluated in its place, but not trained.

SWA: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", UAI
2018, on the server as in Caldarola et al., "Improving Generalization in Federated Learning by
Seeking Flat Minima", ECCV 2022, equations 7 and 8. WIMA: Caldarola et al., "Window-based Model
Averaging Improves Generalization in Heterogeneous Federated Learning", ICCV Workshops 2023,
equation 4.
"""

import math
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

import torch
from annotated_types import Interval
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor
from torch.optim import Optimizer

from fedseg.config.arguments import NonNegative
from fedseg.core.flat import FlatModel, Slot
from fedseg.core.hook import FederatedHook, Run
from fedseg.parts import part_names
from fedseg.registry import HOOKS
from fedseg.units import ceil_share

Start = NonNegativeInt | Annotated[float, Interval(ge=0, le=1)]


class ModelAverage(FederatedHook):
    """Base of the averages.

    ``start`` is as configured, ``first_round(max_rounds)`` its round in a run of so many, and
    ``start_round`` that number once a run trains. With ``start=0.75`` in 1500 rounds both are 1125,
    and :class:`SWA` with a cycle of 10 collects its first model, ``first_model(1125)``, in round
    1130.

    Args:
        start: first round of the average: a fraction of all rounds (float, rounded up), or a round
            (int).
        bn: where the averaged model's BatchNorm statistics come from: ``"average"`` them like the
            weights, or ``"reestimate"`` them on training batches before each evaluation. It has no
            effect where clients keep statistics, or other parameters than the head's.
        parameters: only these parameters and buffers are averaged; the others are the global
            model's. Names, or names of modules, one or a list, as in
            :func:`~fedseg.parts.part_names`: ``"@head"``, ``"backbone"``.
    """

    priority = "VERY_HIGH"

    def __init__(
        self,
        start: Start = 1,
        bn: Literal["average", "reestimate"] = "average",
        parameters: str | Sequence[str] | None = None,
    ) -> None:
        self.start = start
        self.bn = bn
        self.parameters = parameters
        self._masks: tuple[Tensor, Tensor] | None = None

    def bind(self, flat: FlatModel) -> None:
        """Called once, with the model's vectors."""
        if self.parameters is None:
            return
        names = part_names(flat.model, self.parameters, "averaging.parameters")
        self._masks = (
            _mask(flat.w, flat.slots, names),
            _mask(flat.buffers, flat.buffer_slots, names),
        )

    def first_round(self, max_rounds: int) -> int:
        """The first round of the average, in a run of so many rounds."""
        if isinstance(self.start, float):
            return max(1, ceil_share(self.start, max_rounds))
        return self.start

    def has_begun(self, round_: int, max_rounds: int) -> bool:
        """True if the average, or its learning rate, has begun by the end of a round."""
        return round_ >= self.first_round(max_rounds)

    def before_train(self, runner: Run) -> None:
        self.start_round = self.first_round(runner.max_rounds)
        first = self.first_model(self.start_round)
        if first > runner.max_rounds:
            runner.logger.warning(
                f"averaging: {type(self).__name__} would collect its first model in round {first}, "
                f"after the last ({runner.max_rounds}): the global model is evaluated"
            )

    def first_model(self, start_round: int) -> int:
        """The round whose model is the first in the average."""
        return max(start_round, 1)

    def local_lrs(self, optimizer: Optimizer, round_: int, max_rounds: int) -> list[float]:
        """The local learning rates of a round, by group, where the optimizer has the ordinary."""
        return [group["lr"] for group in optimizer.param_groups]

    def average(self) -> tuple[Tensor, Tensor] | None:
        """The averaged (parameters, buffers), or None before it starts."""
        raise NotImplementedError

    def averaged_model(self, runner: Run) -> tuple[Tensor, Tensor] | None:
        """The (parameters, buffers) to evaluate in the global model's place, in its dtype."""
        averages = self.average()
        if averages is None:
            return None
        server = runner.server
        w, buffers = (average.to(server.w.dtype) for average in averages)
        if self._masks is not None:
            w = torch.where(self._masks[0], w, server.w)
            buffers = torch.where(self._masks[1], buffers, server.buffers)
        return w, buffers


def _mask(vector: Tensor, slots: Sequence[Slot], names: Collection[str]) -> Tensor:
    """True where a tensor of these names is, bool like ``vector``."""
    mask = torch.zeros_like(vector, dtype=torch.bool)
    for slot in slots:
        mask[slot.span] = slot.name in names
    return mask


@HOOKS.register_module()
class SWA(ModelAverage):
    """Stochastic weight averaging with a cyclic local learning rate.

    In the 1-based rounds i from the start on, the local learning rate is ``(1-t) lr1 + t lr2``
    with ``t = (mod(i-1, c)+1)/c`` and lr1 the round's ordinary rate; where ``mod(i, c) = 0``,
    after the lowest rate of a cycle, the global model joins the average. (The released code
    collects one round later, after the highest rate.) ``c = 1`` keeps lr1 and averages every
    round.

    The paper's round 0.75 T still has lr1, and its model begins the average; the released code
    leaves that model out. Here it is the first round of a cycle's rates like any other: about one
    model in 250. With a ``start`` one round later it is left out.

    The paper's algorithm 1 counts as many models as cycles have passed in the whole run, ``n =
    i/c`` at round i, and not those that were collected: the first one then weighs as much as one of
    every cycle before, three quarters of the average at the end of a run with ``start=0.75``. Here
    the collected ones are counted, as in the released code.

    A start in the last round (the paper's "100 %" of Landmarks) is one round at the lowest rate of
    its cycle, if the cycle divides it, and an average of that one model.

    Args:
        cycle: length c of a cycle, rounds.
        lr2: lowest local learning rate; needed unless ``cycle`` is 1. A parameter group with an
            ``lr_mult`` multiplies it.
        start, bn, parameters: as in :class:`ModelAverage`.
    """

    def __init__(
        self,
        start: Start = 0.75,
        cycle: PositiveInt = 10,
        lr2: NonNegative | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(start, **kwargs)
        if lr2 is None and cycle > 1:
            raise ValueError("lr2 is needed with a cycle of more than one round")
        self.cycle = cycle
        self.lr2 = lr2
        self.count = 0
        self._w: Tensor | None = None
        self._buffers: Tensor | None = None

    def first_model(self, start_round: int) -> int:
        return math.ceil(max(start_round, 1) / self.cycle) * self.cycle

    def local_lrs(self, optimizer: Optimizer, round_: int, max_rounds: int) -> list[float]:
        if round_ < self.first_round(max_rounds) or self.cycle == 1:
            return super().local_lrs(optimizer, round_, max_rounds)
        t = ((round_ - 1) % self.cycle + 1) / self.cycle
        base = optimizer.defaults.get("lr")
        rates = []
        for group in optimizer.param_groups:
            lr_mult = group.get("initial_lr", group["lr"]) / base if base else 1
            rates.append((1 - t) * group["lr"] + t * (self.lr2 * lr_mult))
        return rates

    def before_round(self, runner: Run) -> None:
        local = runner.optim_wrapper
        local.change_rates(self.local_lrs(local.optimizer, runner.round, runner.max_rounds))

    def after_round(self, runner: Run, record: dict[str, Any]) -> None:
        runner.optim_wrapper.restore_rates()
        if runner.round < self.start_round or runner.round % self.cycle:
            return
        server = runner.server
        if self._w is None:
            self._w = server.w.to(torch.float64, copy=True)
            self._buffers = server.buffers.to(torch.float64, copy=True)
        # n collected models: average <- (n average + model) / (n + 1)
        self._w.mul_(self.count).add_(server.w).div_(self.count + 1)
        self._buffers.mul_(self.count).add_(server.buffers).div_(self.count + 1)
        self.count += 1

    def on_interrupt(self, runner: Run) -> None:
        runner.optim_wrapper.restore_rates()

    def average(self) -> tuple[Tensor, Tensor] | None:
        return None if self._w is None else (self._w, self._buffers)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "w": self._w, "buffers": self._buffers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        begun = state["count"] > 0
        if (state["w"] is not None) != begun or (state["buffers"] is not None) != begun:
            raise ValueError("SWA: count, w and buffers are not those of one average")
        if begun and not (isinstance(state["w"], Tensor) and isinstance(state["buffers"], Tensor)):
            raise ValueError("SWA: w and buffers must be tensors")
        self.count = state["count"]
        self._w = state["w"]
        self._buffers = state["buffers"]


@HOOKS.register_module()
class WIMA(ModelAverage):
    """Mean of the global models of the last W rounds (of all so far, while there are fewer).

    Before the start the global model is evaluated. Once the window is full, the start has no
    effect, so a run with a late start can share its rounds with one without WIMA. The sum over the
    window is kept in float64; the models of the window are on disk, to be subtracted later.

    Args:
        window: number W of rounds; 1 is the last model.
        start, bn, parameters: as in :class:`ModelAverage`.
    """

    def __init__(
        self,
        window: PositiveInt = 100,
        start: Start = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(start, **kwargs)
        self.window = window
        self._sums: dict[str, Tensor] = {}
        self._rounds: list[int] = []

    def register_stores(self, runner: Run) -> None:
        server = runner.server
        self.store = runner.open_store("wima")
        self._sums = {
            "w": torch.zeros_like(server.w, dtype=torch.float64),
            "buffers": torch.zeros_like(server.buffers, dtype=torch.float64),
        }

    def after_round(self, runner: Run, record: dict[str, Any]) -> None:
        if runner.round < self.start_round:
            return
        newest = {"w": runner.server.w, "buffers": runner.server.buffers}
        position = str(runner.round % self.window)  # of the model that leaves the window
        oldest = self.store.get(position)
        self.store.stage(position, runner.round, newest)
        self.store.commit()
        for name, value in newest.items():
            self._sums[name].add_(value)
        for name, value in oldest.items():
            self._sums[name].sub_(value.to(self._sums[name].device))
        self._rounds.append(runner.round)
        self._rounds = self._rounds[-self.window :]

    def average(self) -> tuple[Tensor, Tensor] | None:
        if not self._rounds:
            return None
        count = len(self._rounds)
        return self._sums["w"] / count, self._sums["buffers"] / count

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._sums, "rounds": list(self._rounds)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rounds = list(state["rounds"])
        self._sums = state["sums"]
