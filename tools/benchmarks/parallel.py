"""Costs and gains of clients in parallel: rounds without training, memory, images a second."""

import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks import engine
from benchmarks.classification import SETTING, adapt
from benchmarks.engine import in_own_process, measure_seconds
from fedseg.algorithms import FedAvg
from fedseg.core.client_data import JobStream
from fedseg.core.messages import Exchange
from fedseg.core.vectors import finite_norm
from fedseg.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONS
from fedseg.runner.experiment import load_config

WARM_UP = 2  # rounds

# ---------------------------------------------------------------- clients that train nothing


@MODELS.register_module(force=True)
class IdleNet(BaseModel):
    """So many parameters, which nothing is computed with."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(parameters))

    def forward(self, inputs: Tensor, mode: str = "tensor") -> dict[str, Tensor]:
        return {"loss": self.weights[: inputs.numel()].sum()}


@DATASETS.register_module(force=True)
class IdleData(Dataset):
    """One sample for each client."""

    def __init__(self, clients: int) -> None:
        self.clients = clients

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, index: int) -> Tensor:
        return torch.zeros(1)


@PARTITIONS.register_module(force=True)
class IdlePartition:
    """A sample each."""

    def __call__(self, dataset: IdleData) -> dict[str, list[int]]:
        return {str(client): [client] for client in range(len(dataset))}


@ALGORITHMS.register_module(force=True)
class Idle(FedAvg):
    """FedAvg without local steps: the message is loaded, the update sent, checked and summed."""

    exchanges = (Exchange(train=False),)


def idle_config(parameters: int, clients: int, work_dir: str) -> Config:
    dataset = {"type": "IdleData", "clients": clients}
    loader = {"batch_size": 1, "dataset": dataset, "partition": {"type": "IdlePartition"}}
    return Config(
        {
            "custom_imports": {"imports": ["benchmarks.parallel"], "allow_failed_imports": False},
            "work_dir": work_dir,
            "model": {"type": "IdleNet", "parameters": parameters},
            "train_dataloader": loader,
            "algorithm": {"type": "Idle"},
            "optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1}},
            "train_cfg": {"max_rounds": 1},
            "client_sampler": {"type": "UniformSampler", "clients_per_round": "all"},
        }
    )


# ---------------------------------------------------------------- rounds


def measure(config: Config, clients: int, repeats: int, workers: int) -> dict[str, float]:
    """Seconds and images of rounds after the first ones, and peaks of memory.

    Args:
        workers: 0: clients train in this process.
    """
    kind = {"type": "RayExecutor", "num_workers": workers}
    config.executor = kind if workers else {"type": "InProcessExecutor"}
    runner = engine.build(engine.strip(config, clients))
    rounds = engine.EngineRounds(runner)
    draw, exchanges = runner.client_sampler.participants, runner.algorithm.exchanges
    runner.executor.start(JobStream(draw, 1, engine.ENDLESS, exchanges))
    try:
        seconds = [measure_seconds(rounds) for _ in range(WARM_UP + repeats)][WARM_UP:]
        memory = runner.executor.workers.memory if workers else 0
    finally:
        runner.executor.close()
    chosen = [draw(WARM_UP + number) for number in range(1, repeats + 1)]
    images = sum(runner.data.sizes[client] for clients in chosen for client in clients)
    return {
        "seconds of a round": statistics.median(seconds),
        "images a second": (runner.cfg.train_cfg.get("local_epochs") or 1) * images / sum(seconds),
        "main process, MiB": engine.peak(),
        "worker, MiB": memory / 2**20,
    }


def overhead(
    folder: Path,
    parameters: int = 15_000_000,
    clients: Sequence[int] = (10,),
    workers: Sequence[int] = (2,),
    repeats: int = 20,
) -> dict[str, Any]:
    """Seconds and memory of rounds of clients that train nothing, in one process and on workers."""
    measured: dict[str, Any] = {}
    for count in clients:
        name = f"{count} clients, passes over memory alone, seconds of a round"
        measured[name] = count * memory_passes(parameters)
        for number in (0, *workers):
            name = f"{count} clients, {f'{number} workers' if number else 'in process'}"
            config = idle_config(parameters, count, str(folder / name))
            measured[name] = in_own_process(measure, config, count, repeats, number)
    return measured


def memory_passes(parameters: int) -> float:
    """Seconds of what every client costs: load the model, subtract, check, add in float64."""
    start, w, delta = (torch.zeros(parameters) for _ in range(3))
    total = torch.zeros(parameters, dtype=torch.float64)

    def client() -> None:
        w.copy_(start)
        finite_norm(torch.sub(start, w, out=delta))
        total.add_(delta, alpha=3.0)

    return min(measure_seconds(client) for _ in range(10))


def parallel(
    folder: Path,
    config: Path = SETTING,
    clients: int = 5,
    samples: int = 500,
    workers: Sequence[int] = (1, 2),
    repeats: int = 5,
    cfg_options: Sequence[str] = (),
) -> dict[str, float]:
    """Images a second on workers of one thread, beside as many independent processes."""
    cfg = load_config(config, work_dir=folder, options=cfg_options)
    engine.make_streets(cfg)
    if cfg.train_dataloader.get("type") == "ResidentData":
        adapt(cfg, clients, samples, test_images=1)
    here = in_own_process(measure, cfg.copy(), clients, repeats, 0)
    measured = {"in process, seconds of a round": here["seconds of a round"]}
    for number in workers:
        shared = measure(cfg.copy(), clients, repeats, number)
        folders = [f"{cfg.work_dir}/{number} alone {i}" for i in range(number)]
        # not multiprocessing's pool: its processes may have no children, which load images
        with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
            alone = list(pool.map(partial(_measure_alone, cfg, clients, repeats), folders))
        most = sum(values["images a second"] for values in alone)
        measured[f"{number} workers, images a second"] = shared["images a second"]
        measured[f"{number} independent processes, images a second"] = most
        measured[f"{number} workers / independent processes"] = shared["images a second"] / most
        measured[f"{number} workers, seconds of a round"] = shared["seconds of a round"]
    return measured


def _measure_alone(config: Config, clients: int, repeats: int, folder: str) -> dict[str, float]:
    torch.set_num_threads(1)
    config.work_dir = folder
    return measure(config, clients, repeats, workers=0)
