"""A round's line in the history: participants, losses, traffic, rejected updates."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedseg.core.messages import Task


class RoundRecord:
    """The line of one round in the making.

    Attributes:
        line: the line, plain values; hooks and evaluation add to it.
        seconds: by phase: ``train``, ``aggregate``, ``evaluate``, ``data_wait``.
        norms: of what accepted clients sent, by name.
    """

    def __init__(self, round_: int, lr: float) -> None:
        self.seconds = {"train": 0.0, "aggregate": 0.0, "evaluate": 0.0, "data_wait": 0.0}
        self.norms: defaultdict[str, list[float]] = defaultdict(list)
        self.line: dict[str, Any] = {"round": round_, "participants": [], "lr": lr, "loss": None}
        self.line |= {"rejected": [], "bytes_down": 0, "bytes_up": 0}

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time inside as a phase's."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - begin

    def reject(self, task: Task, reason: str) -> None:
        """An update does not count, and why."""
        entry = {"client": task.name, "exchange": task.exchange, "reason": reason}
        self.line["rejected"].append(entry)

    def add_participant(self, task: Task, loss: float | None) -> None:
        """A client of the last exchange. loss: its mean local loss; None if it was rejected."""
        entry = {"client": task.name, "samples": task.num_samples, "steps": task.num_steps}
        self.line["participants"].append({**entry, "loss": loss})

    def close(self) -> dict[str, Any]:
        """The line, with the loss of the round: the mean over the accepted clients by N_k."""
        accepted = [p for p in self.line["participants"] if p["loss"] is not None]
        samples = sum(p["samples"] for p in accepted)
        if samples:
            self.line["loss"] = sum(p["loss"] * p["samples"] for p in accepted) / samples
        self.line["seconds"] = self.seconds
        return self.line
