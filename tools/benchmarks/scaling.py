"""How a round scales to more workers and participants than there are here, by a small model.

What is measured on one machine goes in: seconds of a step, of a client beside its steps, of the
server for a block and for a round, of a dispatch. The rest is arithmetic: who trains which block
(as the executor does it), when its sums arrive, when the server has added them in order.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedseg.parallel.shares import assign
from fedseg.report.drawing import COLORS, new_figure, plain_axes, save_figure


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of a round's parts.

    Attributes:
        step: seconds of a local step. client: of a client beside its steps (load, check, send).
        add: of the server for one vector of a block. fixed: of the server for a round, message and
            step. dispatch: between the end of a block and the begin of the next.
        vector: bytes of a vector in the model's precision; sums have twice as many.
        network: bytes a second into one machine. machine: workers on each.
        blocks: at most so many a round. fan_in: blocks that workers sum up among themselves before
            the server sees them; 1: none.
    """

    step: float
    client: float
    add: float
    fixed: float
    dispatch: float = 0.002
    vector: float = 60e6
    network: float = 1.25e9
    machine: int = 8
    blocks: int = 64
    fan_in: int = 1


@dataclass(frozen=True)
class Round:
    """What a simulated round takes.

    Attributes:
        seconds: of it. server: seconds that the server computes or receives.
        ideal: seconds if the steps alone were shared out evenly.
    """

    seconds: float
    server: float
    ideal: float

    @property
    def efficiency(self) -> float:
        """Of the workers."""
        return self.ideal / self.seconds

    @property
    def server_bound(self) -> bool:
        """Whether the server is what the round waits for."""
        return self.server > 0.5 * self.seconds


def simulate(steps: Sequence[int], workers: int, costs: Costs) -> Round:
    """A round.

    Args:
        steps: local steps of each participant, in ascending order of the clients.
        workers: how many.
    """
    size = max(1, -(-len(steps) // costs.blocks))
    blocks = [steps[i : i + size] for i in range(0, len(steps), size)]
    seconds = [sum(block) * costs.step + len(block) * costs.client for block in blocks]
    # a message reaches machine after machine from those that have it: a binary tree
    machines = -(-workers // costs.machine)
    transfer = costs.vector / costs.network if machines > 1 else 0.0
    begin = costs.fixed + transfer * math.ceil(math.log2(max(machines, 1)))
    ended = _trained(seconds, workers, begin, costs.dispatch)
    vector = costs.vector * (1 if size == 1 else 2)
    arrive = vector / costs.network if machines > 1 else 0.0
    if costs.fan_in > 1:  # groups of blocks meet on one of their machines
        groups = [ended[i : i + costs.fan_in] for i in range(0, len(ended), costs.fan_in)]
        ended = [max(group) + (len(group) - 1) * (arrive + costs.add) for group in groups]
    now = begin
    for end in ended:  # in the order of the blocks; receiving and adding overlap
        now = max(now + max(costs.add, arrive), end + arrive + costs.add)
    server = costs.fixed + len(ended) * max(costs.add, arrive)
    return Round(now, server, sum(steps) * costs.step / workers)


def _trained(seconds: Sequence[float], workers: int, begin: float, dispatch: float) -> list[float]:
    """When each block is trained; an idle worker takes over from the one with the most to do."""
    queues = [list(share) for share in assign(seconds, workers)]
    ended = [0.0] * len(seconds)
    free = [(begin, worker) for worker in range(workers)]
    while any(queues):
        now, worker = heapq.heappop(free)
        if queues[worker]:
            block = queues[worker].pop(0)
        else:
            late = max(queues, key=lambda queue: sum(seconds[b] for b in queue))
            block = late.pop()
        ended[block] = now + dispatch + seconds[block]
        heapq.heappush(free, (ended[block], worker))
    return ended


def table(costs: Costs, steps: int, participants: Sequence[int], workers: Sequence[int]) -> dict:
    """Efficiency of every number of workers for every number of participants."""
    found: dict[str, Any] = {}
    for people in participants:
        for number in workers:
            round_ = simulate([steps] * people, number, costs)
            limit = ", limited by the server" * round_.server_bound
            text = f"{round_.seconds:,.2f} s, {100 * round_.efficiency:.0f} %{limit}"
            found[f"{people:,} participants, {number} workers"] = text
    return found


def limits(costs: Costs, steps: int, participants: int) -> dict[str, str]:
    """Up to how many workers half of each is used, and what the limit is; by what might move it."""
    variants = {
        f"{costs.blocks} blocks": costs,
        "512 blocks": replace(costs, blocks=512),
        "512 blocks, groups of 8 summed by workers": replace(costs, blocks=512, fan_in=8),
        "one block a participant": replace(costs, blocks=participants),
        "one block a participant, groups of 64": replace(costs, blocks=participants, fan_in=64),
    }
    found = {}
    for name, own in variants.items():
        for workers in (2**i for i in range(14)):
            round_ = simulate([steps] * participants, workers, own)
            if round_.efficiency < 0.5:
                break
        why = "the server" if round_.server_bound else "the number of blocks"
        found[name] = f"{workers // 2} workers; then {why}"
    return found


def draw(costs: Costs, steps: int, participants: Sequence[int], path: Path) -> Path:
    """Rounds an hour by the number of workers, for each number of participants; where the server is
    what a round waits for, points are hollow. A PNG or SVG."""
    figure = new_figure(7, 4)
    axes = figure.subplots()
    workers = [2**i for i in range(13)]
    for people, color in zip(participants, COLORS, strict=False):
        rounds = [simulate([steps] * people, number, costs) for number in workers]
        speeds = [3600 / one.seconds for one in rounds]
        axes.plot(workers, speeds, color=color, label=f"{people:,} participants")
        faces = ["white" if one.server_bound else color for one in rounds]
        axes.scatter(workers, speeds, c=faces, edgecolors=color, zorder=3)
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="rounds an hour, predicted")
    axes.set_xticks(workers, [f"{number:,}" for number in workers])
    plain_axes(axes)
    axes.legend(frameon=False)
    return save_figure(figure, path)
