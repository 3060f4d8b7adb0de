"""What clients in parallel cost and gain: rounds without training, memory, images a second."""

import json
import multiprocessing
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks import engine, idle
from benchmarks.scaling import Costs, simulate
from benchmarks.timing import clocked, in_own_process, peak
from mmengine.config import Config

from fedseg.core.arithmetic import accumulate, finite_norm
from fedseg.core.client_data import JobStream

WARM_UP = 2  # rounds


def executor(workers: int) -> dict[str, Any]:
    """The config of so many workers; 0: clients train in this process."""
    if not workers:
        return {"type": "InProcessExecutor"}
    return {"type": "RayExecutor", "num_workers": workers}


def measure(config: Config, clients: int, repeats: int) -> dict[str, Any]:
    """Rounds after the first ones: seconds, images, steps of the clients, peaks of memory (MiB)."""
    runner = engine.build(engine.strip(config, clients))
    rounds = engine.EngineRounds(runner)
    draw, passes = runner.client_sampler.participants, runner.algorithm.passes()
    runner.executor.start(JobStream(draw, 1, engine.ENDLESS, passes))
    seconds, busy, images, steps = [], [], [], []
    try:
        for number in range(1, WARM_UP + repeats + 1):
            begin = time.process_time()
            seconds.append(clocked(rounds))
            busy.append(time.process_time() - begin)
            images.append(sum(runner.data.sizes[client] for client in draw(number)))
            steps.append([runner.data.num_steps(client) for client in draw(number)])
        memory = getattr(getattr(runner.executor, "pool", None), "memory", 0)
    finally:
        runner.executor.close()
    seconds, images, steps = seconds[WARM_UP:], images[WARM_UP:], steps[WARM_UP:]
    phases = {name: sum(s[name] for s in rounds.seconds[WARM_UP:]) for name in rounds.seconds[0]}
    epochs = runner.cfg.train_cfg.get("local_epochs") or 1
    return {
        "seconds of a round": statistics.median(seconds),
        "slowest round": max(seconds),
        "CPU seconds of the main process": statistics.median(busy[WARM_UP:]),
        "main process": peak(),
        "worker": memory / 2**20,
        "images a second": epochs * sum(images) / sum(seconds),
        "steps": steps,
        "seconds of a step": phases["train"] / sum(map(sum, steps)),
        "seconds of the server for a client": phases["aggregate"] / sum(map(len, steps)),
    }


def overhead(
    folder: Path, parameters: int, clients: int, workers: Sequence[int], repeats: int
) -> dict[str, Any]:
    """Rounds of clients that train nothing, in this process and on workers."""
    found = {"passes over memory alone, seconds of a round": clients * memory_passes(parameters)}
    for number in (0, *workers):
        name = f"{number} workers" if number else "in process"
        config = idle.config(parameters, clients, str(folder / name), executor=executor(number))
        measured = measure(config, clients, repeats)
        for what in ("seconds of a round", "slowest round", "CPU seconds of the main process"):
            found[f"{name}, {what}"] = measured[what]
    return found


def memory_passes(parameters: int) -> float:
    """Seconds of what every client costs: load the model, subtract, check, add in float64."""
    start, w, delta = (torch.zeros(parameters) for _ in range(3))
    total = torch.zeros(parameters, dtype=torch.float64)

    def client() -> None:
        w.copy_(start)
        finite_norm(torch.sub(start, w, out=delta))
        accumulate(total, [(delta, 3.0)])

    return min(clocked(client) for _ in range(10))


def peers(
    python: str, parameters: int, clients: int, workers: Sequence[int], repeats: int
) -> dict[str, Any]:
    """The same rounds in other simulations; the reason where there is no such thing.

    Args:
        python: an interpreter that has them.
    """
    found: dict[str, Any] = {}
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    for peer, numbers in (("flower", workers), ("pfl", [1])):
        for number in numbers:
            shape = map(str, (parameters, clients, number, repeats))
            command = [python, str(Path(__file__).with_name("peers.py")), peer, *shape]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            said = (done.stderr if done.returncode else done.stdout).splitlines() or [""]
            median = said[-1] if done.returncode else statistics.median(json.loads(said[-1]))
            found[f"{peer}, {number} workers, seconds of a round"] = median
    return found


def memory(
    folder: Path, parameters: int, participants: Sequence[int], workers: int
) -> dict[str, float]:
    """Peak memory of rounds of clients that train nothing, by their number; MiB."""
    found = {}
    for clients in participants:
        peaks = in_own_process(
            _idle_rounds, str(folder / str(clients)), parameters, clients, workers
        )
        for what in ("main process", "worker"):
            found[f"{clients} participants, {what}, MiB"] = peaks[what]
    return found


def _idle_rounds(folder: str, parameters: int, clients: int, workers: int) -> dict[str, float]:
    config = idle.config(parameters, clients, folder, executor=executor(workers))
    return measure(config, clients, repeats=3)


def parallel(
    config: Config, clients: int, workers: Sequence[int], repeats: int
) -> dict[str, float]:
    """Images a second on workers of one thread, beside as many independent processes.

    The seconds of a round are compared with those that :mod:`benchmarks.scaling` predicts from the
    independent processes' steps.

    Args:
        config: of the rounds. clients: of a round.
    """
    found: dict[str, float] = {}
    for number in workers:
        config.executor = executor(number)
        mine = measure(config.copy(), clients, repeats)
        config.executor = executor(0)
        folders = [f"{config.work_dir}/{number} alone {i}" for i in range(number)]
        # not multiprocessing's pool: its processes may have no children, which load images
        with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
            told = list(pool.map(partial(_alone, config, clients, repeats), folders))
        alone = {what: statistics.mean(one[what] for one in told) for what in told[0]}
        both, most = mine["images a second"], number * alone["images a second"]
        found[f"{number} workers, images a second"] = both
        found[f"{number} independent processes, images a second"] = most
        found[f"{number} workers / independent processes"] = both / most
        server = alone["seconds of the server for a client"]
        costs = Costs(alone["seconds of a step"], client=0.0, add=server, fixed=0.0, machine=number)
        predicted = statistics.median(simulate(s, number, costs).seconds for s in mine["steps"])
        found[f"{number} workers, seconds of a round"] = mine["seconds of a round"]
        found[f"{number} workers, seconds of a round, predicted"] = predicted
    return found


def _alone(config: Config, clients: int, repeats: int, folder: str) -> dict[str, float]:
    torch.set_num_threads(1)
    config.work_dir = folder
    measured = measure(config, clients, repeats)
    del measured["steps"]
    return measured
