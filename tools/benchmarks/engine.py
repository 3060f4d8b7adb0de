"""Shared by the benchmarks: rounds without evaluation, checkpoints and display; seconds, memory."""

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from fedseg.config.components import DEFAULT_HOOKS
from fedseg.core.client_data import ClientData
from fedseg.data_prep.idda import prepare_demo_streets
from fedseg.optim import OptimWrapper, build_local_optimizer
from fedseg.runner.runner import FederatedRunner
from fedseg.runner.sampler import FixedSampler
from fedseg.units import peak_memory

CONFIGS = Path(__file__).parents[2] / "configs"
STREETS = Path("data/demo")  # which configs/demo.py reads
ENDLESS = 10**6  # rounds of the run that the measured ones are cut from
Seconds = Mapping[str, list[float]]


def make_streets(config: Config) -> None:
    """Render the streets of configs/demo.py if the config reads them and they are not there."""
    root = Path(config.train_dataloader.dataset.get("data_root") or "")
    if root == STREETS and not root.exists():
        print(f"rendering street scenes in {root}", file=sys.stderr, flush=True)
        prepare_demo_streets(root, size=(464, 256))


def strip(config: Config, clients: int) -> Config:
    """Leave a config nothing but training with so many clients per round; it is changed."""
    config.update(dict.fromkeys(("averaging", "personal", "custom_hooks", "param_scheduler")))
    config.update(dict.fromkeys(("test_dataloader", "test_evaluator", "test_cfg")))
    config.default_hooks = dict.fromkeys(DEFAULT_HOOKS)
    config.client_sampler = {"type": "UniformSampler", "clients_per_round": clients}
    config.train_cfg.update(max_rounds=ENDLESS, val_interval=ENDLESS, val_last_rounds=1)
    return config


def build(config: Config) -> FederatedRunner:
    """The runner of a stripped config, ready for rounds."""
    runner = FederatedRunner.from_cfg(config)
    runner.build_federation()
    runner.begin = time.perf_counter()
    return runner


def use_data(runner: FederatedRunner, data: ClientData) -> None:
    runner.data = runner.trainer.data = data


def fix_participants(runner: FederatedRunner) -> list[int]:
    """Let the participants of the first round take part in every round."""
    chosen = runner.client_sampler.participants(1)
    sampler = FixedSampler([[runner.data.clients[client] for client in chosen]], repeat=True)
    sampler.bind(runner.data.clients, runner.seed)
    runner.client_sampler = sampler
    return chosen


def local_optimizer(runner: FederatedRunner, **options: Any) -> OptimWrapper:
    """The config's optimizer in a wrapper, for example of ``type="SAMOptimWrapper"``."""
    optimizer = dict(runner.cfg.optim_wrapper.optimizer)
    return build_local_optimizer(
        {**options, "optimizer": optimizer}, runner.flat, runner.max_rounds
    )


def describe(runner: FederatedRunner, clients: list[int]) -> dict[str, Any]:
    """Device and size of a round."""
    device = runner.flat.w.device
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "clients per round": len(clients),
        "steps per round": sum(runner.data.num_steps(client) for client in clients),
    }


class EngineRounds:
    """Rounds of the engine, from the first one on: what the training loop runs, history included.

    Several of these may share a runner of :func:`build`: each has its own global model and counts
    its own rounds. Local optimizer and precision are the runner's by default.

    Attributes:
        seconds: of each round, by phase as in the history, and of the ``whole``.
        traffic: bytes down and up of each round.
    """

    def __init__(
        self, runner: FederatedRunner, local: OptimWrapper | None = None, amp: bool | None = None
    ) -> None:
        self.runner, self.local = runner, local or runner.optim_wrapper
        self.amp = runner.trainer.amp if amp is None else amp
        self.w, self.buffers = runner.server.w.clone(), runner.server.buffers.clone()
        self.round = 0
        self.seconds: list[dict[str, float]] = []
        self.traffic: list[int] = []

    def __call__(self) -> None:
        """Run the next round."""
        runner = self.runner
        runner.server.w, runner.server.buffers = self.w, self.buffers
        runner.optim_wrapper = runner.trainer.local = self.local
        runner.trainer.amp = self.amp
        runner.train_loop.finished_rounds = self.round
        runner._hooks = [self]
        begin = time.perf_counter()
        runner.train_loop.train_round(self.round + 1)
        if self.w.is_cuda:
            torch.cuda.synchronize()
        self.seconds[-1]["whole"] = time.perf_counter() - begin
        self.round += 1

    def after_round(self, runner: FederatedRunner, record: dict[str, Any]) -> None:
        """As a hook: keep what the benchmarks report."""
        self.seconds.append(dict(record["seconds"]))
        self.traffic.append(record["bytes_down"] + record["bytes_up"])

    def share(self, phase: str, of: str, rounds: int) -> list[float]:
        """A phase's share of another in each of the last rounds."""
        return [seconds[phase] / seconds[of] for seconds in self.seconds[-rounds:]]

    def weights(self) -> dict[str, torch.Tensor]:
        """The global model's parameters by name."""
        return {slot.name: slot.view(self.w) for slot in self.runner.flat.slots}


# ---------------------------------------------------------------- seconds and memory


def measure_seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def alternate(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each side in each of ``repeats`` alternating runs, after one warm-up each.

    Alternating lets a drift of the machine's speed hit all sides.
    """
    for run in sides.values():
        run()
    turns = [{name: measure_seconds(run) for name, run in sides.items()} for _ in range(repeats)]
    return {name: [turn[name] for turn in turns] for name in sides}


def median_ratio(seconds: Seconds, name: str, other: str) -> float:
    """The median over the pairs of runs."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[other], strict=True))


def medians(seconds: Seconds) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak() -> float:
    """Peak memory of this process, MiB; 0 where the system does not tell."""
    return (peak_memory() or 0) / 2**20


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a new process, whose peak memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
