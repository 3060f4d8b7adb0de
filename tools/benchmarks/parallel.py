"""Costs and gains of clients in parallel: rounds without training, memory, images a second."""

import json
import multiprocessing
import os
import statistics
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from benchmarks import engine, idle
from benchmarks.classification import SETTING, adapt
from benchmarks.timing import clocked, in_own_process, peak
from mmengine.config import Config

from fedseg.core.arithmetic import accumulate, finite_norm
from fedseg.core.client_data import JobStream
from fedseg.runner.experiment import load_config

WARM_UP = 2  # rounds


def measure(config: Config, clients: int, repeats: int, workers: int) -> dict[str, float]:
    """Rounds after the first ones: seconds, images, peaks of memory (MiB).

    Args:
        workers: 0: clients train in this process.
    """
    kind = {"type": "RayExecutor", "num_workers": workers}
    config.executor = kind if workers else {"type": "InProcessExecutor"}
    runner = engine.build(engine.strip(config, clients))
    rounds = engine.EngineRounds(runner)
    draw, passes = runner.client_sampler.participants, runner.algorithm.passes()
    runner.executor.start(JobStream(draw, 1, engine.ENDLESS, passes))
    seconds, busy, images = [], [], []
    try:
        for number in range(1, WARM_UP + repeats + 1):
            begin = time.process_time()
            seconds.append(clocked(rounds))
            busy.append(time.process_time() - begin)
            images.append(sum(runner.data.sizes[client] for client in draw(number)))
        memory = getattr(getattr(runner.executor, "pool", None), "memory", 0)
    finally:
        runner.executor.close()
    seconds, busy, images = (values[WARM_UP:] for values in (seconds, busy, images))
    epochs = runner.cfg.train_cfg.get("local_epochs") or 1
    return {
        "seconds of a round": statistics.median(seconds),
        "slowest round": max(seconds),
        "CPU seconds of the main process": statistics.median(busy),
        "images a second": epochs * sum(images) / sum(seconds),
        "main process, MiB": peak(),
        "worker, MiB": memory / 2**20,
    }


def overhead(
    folder: Path,
    parameters: Annotated[int, "of the model"] = 15_000_000,
    clients: Annotated[int, "per round"] = 10,
    workers: Annotated[list[int], "beside this process"] = [2],  # noqa: B006
    repeats: Annotated[int, "rounds"] = 20,
    peers: Annotated[str, "an interpreter that has Flower and pfl-research: these, too"] = "",
) -> dict[str, Any]:
    """Rounds of clients that train nothing, in this process and on workers."""
    measured: dict[str, Any] = {
        "passes over memory alone, seconds of a round": clients * memory_passes(parameters)
    }
    for number in (0, *workers):
        name = f"{number} workers" if number else "in process"
        config = idle.config(parameters, clients, str(folder / name))
        values = measure(config, clients, repeats, number)
        for what in ("seconds of a round", "slowest round", "CPU seconds of the main process"):
            measured[f"{name}, {what}"] = values[what]
    if peers:
        for peer, numbers in (("flower", workers), ("pfl", [1])):
            for number in numbers:
                name = f"{peer}, {number} workers, seconds of a round"
                measured[name] = peer_round(peers, peer, parameters, clients, number, repeats)
    return measured


def memory_passes(parameters: int) -> float:
    """Seconds of what every client costs: load the model, subtract, check, add in float64."""
    start, w, delta = (torch.zeros(parameters) for _ in range(3))
    total = torch.zeros(parameters, dtype=torch.float64)

    def client() -> None:
        w.copy_(start)
        finite_norm(torch.sub(start, w, out=delta))
        accumulate(total, [(delta, 3.0)])

    return min(clocked(client) for _ in range(10))


def peer_round(python: str, peer: str, *shape: int) -> float | str:
    """Median seconds of a round in another simulation; the reason where there is no such thing."""
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    command = [python, str(Path(__file__).with_name("peers.py")), peer, *map(str, shape)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = (done.stderr if done.returncode else done.stdout).splitlines() or [""]
    return lines[-1] if done.returncode else statistics.median(json.loads(lines[-1]))


def memory(
    folder: Path,
    parameters: Annotated[int, "of the model"] = 100_000,
    participants: Annotated[list[int], "of a round"] = [10, 100, 1000],  # noqa: B006
    workers: Annotated[int, "processes that train clients"] = 2,
) -> dict[str, float]:
    """Peak memory of rounds of clients that train nothing, by their number; MiB."""
    measured = {}
    for clients in participants:
        shape = (str(folder / str(clients)), parameters, clients, workers)
        peaks = in_own_process(_idle_rounds, *shape)
        for what in ("main process, MiB", "worker, MiB"):
            measured[f"{clients} participants, {what}"] = peaks[what]
    return measured


def _idle_rounds(folder: str, parameters: int, clients: int, workers: int) -> dict[str, float]:
    return measure(idle.config(parameters, clients, folder), clients, 3, workers)


def parallel(
    folder: Path,
    config: Annotated[Path, "an experiment"] = SETTING,
    clients: Annotated[int, "per round"] = 5,
    samples: Annotated[int, "images per client, noise if the data set is not there"] = 500,
    workers: Annotated[list[int], "numbers of them"] = [1, 2],  # noqa: B006
    repeats: Annotated[int, "rounds"] = 5,
    amp: Annotated[bool, "bfloat16"] = False,
    cfg_options: Annotated[list[str], "KEY=VALUE"] = [],  # noqa: B006
) -> dict[str, float]:
    """Images a second on workers of one thread, beside as many independent processes."""
    cfg = load_config(config, work_dir=folder, options=cfg_options)
    if cfg.train_dataloader.get("type") == "ResidentData":
        adapt(cfg, clients, samples, test_images=1)
    cfg.train_cfg.amp = amp
    measured: dict[str, float] = {}
    for number in workers:
        shared = measure(cfg.copy(), clients, repeats, number)
        folders = [f"{cfg.work_dir}/{number} alone {i}" for i in range(number)]
        # not multiprocessing's pool: its processes may have no children, which load images
        with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
            alone = list(pool.map(partial(_alone, cfg, clients, repeats), folders))
        most = sum(one["images a second"] for one in alone)
        measured[f"{number} workers, images a second"] = shared["images a second"]
        measured[f"{number} independent processes, images a second"] = most
        measured[f"{number} workers / independent processes"] = shared["images a second"] / most
        measured[f"{number} workers, seconds of a round"] = shared["seconds of a round"]
    return measured


def _alone(config: Config, clients: int, repeats: int, folder: str) -> dict[str, float]:
    torch.set_num_threads(1)
    config.work_dir = folder
    return measure(config, clients, repeats, workers=0)
