"""Sharpness along a run."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from fedseg.config.arguments import Positive
from fedseg.core.client import Client
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.products import Products
from fedseg.curvature.run_data import RunData, Selection
from fedseg.curvature.surface import LossSurface, Point
from fedseg.engine.executor import InProcessExecutor
from fedseg.errors import ConfigError, TrainingError
from fedseg.registry import HOOKS
from fedseg.runs.curvature_files import CURVATURE, OF_MODEL, OF_PARTICIPANTS

QUANTITIES = (*OF_MODEL, *OF_PARTICIPANTS)


@HOOKS.register_module()
class CurvatureHook(FederatedHook):
    """Adds curvature to the history's line of every ``interval``-th round, and to the results.

    ``lambda_max``: the largest Hessian eigenvalue of the new global model's loss, on images without
    augmentation; ``client_drift``: the participants' mean distance from the model they received;
    ``update_cosine``: the mean cosine of two of their updates. Nothing that the run computes
    depends on the hook.

    Args:
        interval: rounds between two measurements.
        quantities: those of the above to measure.
        samples: a fixed random subset of the training images of at most so many.
        tolerance: residual of the eigenvalue, relative to it.
    """

    priority = "LOW"

    def __init__(
        self,
        interval: PositiveInt = 50,
        quantities: Sequence[Literal["lambda_max", "client_drift", "update_cosine"]] = QUANTITIES,
        samples: PositiveInt = 1000,
        tolerance: Positive = 0.01,
    ) -> None:
        self.interval = interval
        self.quantities = tuple(quantities)
        self.samples = samples
        self.tolerance = tolerance
        self._needs_updates = not set(quantities).isdisjoint(OF_PARTICIPANTS)
        self._updates: list[Tensor] = []  # of every participant

    def before_train(self, runner: Any) -> None:
        if self._needs_updates and not isinstance(runner.executor, InProcessExecutor):
            raise ConfigError(
                f"CurvatureHook.quantities: {', '.join(OF_PARTICIPANTS)} need all updates in this "
                "process: leave them out, or set executor.type='InProcessExecutor'"
            )
        if "lambda_max" in self.quantities:
            self._run = RunData(runner.cfg, runner.trainer)
            self._run.samples(Selection(count=1))  # without unaugmented images it fails now

    def before_round(self, runner: Run) -> None:
        self._updates = []

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        is_last = client.exchange == len(runner.algorithm.exchanges) - 1  # others are thrown away
        if self._needs_updates and is_last and client.round % self.interval == 0:
            self._updates.append(client.start - client.w)

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        if runner.round % self.interval:
            return
        begin = time.perf_counter()
        if "lambda_max" in self.quantities:
            record["lambda_max"] = self._lambda_max(runner)
        if "client_drift" in self.quantities:
            record["client_drift"] = mean_norm(self._updates)
        if "update_cosine" in self.quantities:
            record["update_cosine"] = mean_cosine(self._updates)
        record["seconds"]["curvature"] = time.perf_counter() - begin

    def results(self, runner: Run, history: list[dict[str, Any]]) -> dict[str, Any]:
        lines = [line for line in history if "curvature" in (line.get("seconds") or {})]
        if not lines:
            return {}
        series = {name: [line.get(name) for line in lines] for name in self.quantities}
        return {CURVATURE: {"rounds": [line["round"] for line in lines], **series}}

    def _lambda_max(self, runner: Any) -> float | None:
        """The largest eigenvalue; None, with a warning, if it cannot be computed."""
        if runner.local_state is not None:
            states = {}
            for client in runner.client_sizes:
                states[client] = runner.local_state.select_state(runner.store.get(client))
            self._run.statistics = {client: state for client, state in states.items() if state}
        selection = self._run.in_small_batches(Selection(count=self.samples))
        point = Point("global model", runner.server.w, runner.server.buffers)
        rng = generator_for(self._run.seed, "curvature top")
        try:
            samples = self._run.global_samples(selection)
            products = Products(LossSurface(runner.flat, samples, point))
            return float(spectrum.largest(products, 1, rng, self.tolerance).values[0])
        except TrainingError as error:  # the run goes on
            runner.logger.warning(f"CurvatureHook: round {runner.round}: lambda_max: {error}")
            return None


def mean_norm(updates: Sequence[Tensor]) -> float | None:
    """The mean length of updates; None if there is none."""
    if not updates:
        return None
    return sum(float(update.norm()) for update in updates) / len(updates)


def mean_cosine(updates: Sequence[Tensor]) -> float | None:
    """The mean cosine of two updates; None for fewer than two."""
    if len(updates) < 2:
        return None
    unit = torch.nn.functional.normalize(torch.stack([u.double() for u in updates]), dim=1)
    i, j = torch.triu_indices(len(unit), len(unit), 1)
    return float((unit @ unit.T)[i, j].mean())
