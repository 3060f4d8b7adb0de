"""Sharpness along a run."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.checkpoint import RunData
from fedseg.curvature.products import Products
from fedseg.curvature.settings import Count, Positive
from fedseg.curvature.surface import LossSurface, Point
from fedseg.engine.executor import InProcessExecutor
from fedseg.errors import ConfigError, TrainingError
from fedseg.registry import HOOKS
from fedseg.runs.curvature_files import CURVATURE, OF_MODEL, OF_PARTICIPANTS

QUANTITIES = (*OF_MODEL, *OF_PARTICIPANTS)


@HOOKS.register_module()
class CurvatureHook(FederatedHook):
    """Adds curvature to the history's line of every ``interval``-th round, and to the results.

    ``lambda_max``: the largest Hessian eigenvalue of the new global model's loss;
    ``gradient_norm``: the length of its gradient; ``client_lambda_max``: the mean over participants
    of the largest eigenvalue of each one's trained model on its own data; ``client_drift``: their
    mean distance from the model they received; ``update_cosine``: the mean cosine of two of their
    updates. Images are not augmented. Nothing that the run computes depends on the hook.

    Args:
        interval: rounds between two measurements.
        quantities: those of the above to measure.
        samples: a fixed random subset of the training images of at most so many, as of a client's.
        tolerance: residual of an eigenvalue, relative to it.
    """

    priority = "LOW"

    def __init__(
        self,
        interval: Count = 50,
        quantities: Sequence[Literal[QUANTITIES]] = QUANTITIES,
        samples: Count = 1000,
        tolerance: Positive = 0.01,
    ) -> None:
        self.interval, self.samples, self.tolerance = interval, samples, tolerance
        self.quantities = tuple(quantities)
        self._of_participants = not set(quantities).isdisjoint(OF_PARTICIPANTS)
        self._trained: list[tuple[Point, Tensor]] = []  # model and update of every participant

    def before_train(self, runner: Any) -> None:
        if self._of_participants and not isinstance(runner.executor, InProcessExecutor):
            raise ConfigError(
                f"CurvatureHook.quantities: {', '.join(OF_PARTICIPANTS)} need all models "
                "in this process: leave them out, or set executor.type='InProcessExecutor'"
            )
        self._run = RunData(runner.cfg, runner.trainer)
        self._run.samples(count=1, personal=False)  # without unaugmented images it fails now

    def before_round(self, runner: Run) -> None:
        self._trained = []

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        final = client.exchange == len(runner.algorithm.exchanges) - 1  # others are thrown away
        if self._of_participants and final and client.round % self.interval == 0:
            point = Point(client.id, client.w.clone(), client.buffers.clone())
            self._trained.append((point, client.start - client.w))

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        if runner.round % self.interval:
            return
        begin = time.perf_counter()
        local_state = runner.local_state
        if local_state is not None:
            states = {c: local_state.select_state(runner.store.get(c)) for c in runner.client_sizes}
            self._run.statistics = {c: state for c, state in states.items() if state}
        for name in self.quantities:
            try:
                nobody = name in OF_PARTICIPANTS and not self._trained
                record[name] = None if nobody else getattr(self, f"_{name}")(runner)
            except (TrainingError, ArithmeticError, ValueError) as error:  # the run goes on
                record[name] = None
                runner.logger.warning(f"CurvatureHook: round {runner.round}: {name}: {error}")
        record["seconds"]["curvature"] = time.perf_counter() - begin

    def results(self, runner: Run, history: list[dict[str, Any]]) -> dict[str, Any]:
        lines = [line for line in history if "curvature" in (line.get("seconds") or {})]
        series = {name: [line.get(name) for line in lines] for name in self.quantities}
        return {CURVATURE: {"rounds": [line["round"] for line in lines], **series}} if lines else {}

    def _surface(self, runner: Run, personal: bool = True) -> LossSurface:
        point = Point("global model", runner.server.w, runner.server.buffers)
        data = self._run.samples(count=self.samples, personal=personal)
        return LossSurface(runner.flat, data, point)

    def _largest(self, surface: LossSurface) -> float:
        rng = generator_for(self._run.seed, "curvature top")
        return float(spectrum.largest(Products(surface), 1, rng, self.tolerance).values[0])

    def _lambda_max(self, runner: Run) -> float:
        return self._largest(self._surface(runner))

    def _gradient_norm(self, runner: Run) -> float:
        return float(self._surface(runner).gradient()[0].norm())

    def _client_lambda_max(self, runner: Run) -> float:
        values = []
        for point, _ in self._trained:
            data = self._run.samples(client=point.name, count=self.samples, personal=False)
            values.append(self._largest(LossSurface(runner.flat, data, point)))
        return float(np.mean(values))

    def _client_drift(self, runner: Run) -> float:
        return float(np.mean([float(update.norm()) for _, update in self._trained]))

    def _update_cosine(self, runner: Run) -> float | None:
        updates = torch.stack([update.double() for _, update in self._trained])
        if len(updates) < 2:
            return None
        unit = torch.nn.functional.normalize(updates, dim=1)
        i, j = torch.triu_indices(len(unit), len(unit), 1)
        return float((unit @ unit.T)[i, j].mean())
