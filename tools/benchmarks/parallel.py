"""What clients in parallel cost and gain: rounds without training, and images a second."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import engine, idle
from benchmarks.timing import clocked
from mmengine.config import Config

from fedseg.core.client_data import JobStream

WARM_UP = 2  # rounds


def executor(workers: int, cpus: int = 1) -> dict[str, Any]:
    """The config of so many workers; 0: clients train in this process."""
    if not workers:
        return {"type": "InProcessExecutor"}
    return {"type": "RayExecutor", "num_workers": workers, "cpus_per_worker": cpus}


def measure(config: Config, clients: int, repeats: int) -> dict[str, float]:
    """Seconds of a round after the first ones, and its images a second."""
    runner = engine.build(engine.strip(config, clients))
    rounds = engine.EngineRounds(runner)
    draw, passes = runner.client_sampler.participants, runner.algorithm.passes()
    runner.executor.start(JobStream(draw, 1, engine.ENDLESS, passes))
    seconds, images = [], []
    try:
        for number in range(1, WARM_UP + repeats + 1):
            seconds.append(clocked(rounds))
            images.append(sum(runner.data.sizes[client] for client in draw(number)))
    finally:
        runner.executor.close()
    seconds, images = seconds[WARM_UP:], images[WARM_UP:]
    epochs = runner.cfg.train_cfg.get("local_epochs") or 1
    return {
        "seconds of a round": statistics.median(seconds),
        "slowest round": max(seconds),
        "images a second": epochs * sum(images) / sum(seconds),
    }


def overhead(
    folder: Path, parameters: int, clients: int, workers: Sequence[int], repeats: int
) -> dict[str, Any]:
    """Rounds of clients that train nothing, in this process and on workers."""
    found = {}
    for number in (0, *workers):
        name = f"{number} workers" if number else "in process"
        config = idle.config(parameters, clients, str(folder / name), executor=executor(number))
        measured = measure(config, clients, repeats)
        found[f"{name}, seconds of a round"] = measured["seconds of a round"]
        found[f"{name}, slowest round"] = measured["slowest round"]
    return found


def parallel(
    config: Config, clients: int, workers: Sequence[int], repeats: int, command: Sequence[str]
) -> dict[str, Any]:
    """Images a second on workers of one thread, beside as many independent processes.

    Args:
        config: of the rounds. clients: of a round.
        command: measures ``--workers 0`` in a process of its own and writes JSON to ``--out``.
    """
    if list(workers) == [0]:
        return {"images a second": measure(config, clients, repeats)["images a second"]}
    found: dict[str, Any] = {}
    for number in workers:
        folder = Path(config.work_dir)
        config.executor = executor(number)
        mine = measure(config.copy(), clients, repeats)["images a second"]
        files = [folder / f"alone{number}_{i}.json" for i in range(number)]
        started = [
            subprocess.Popen([sys.executable, *command, "--workers", "0", "--out", str(file)])
            for file in files
        ]
        if any(process.wait() for process in started):
            raise RuntimeError("an independent process failed")
        alone = sum(json.loads(file.read_text())["images a second"] for file in files)
        found[f"{number} workers, images a second"] = mine
        found[f"{number} independent processes, images a second"] = alone
        found[f"{number} workers / independent processes"] = mine / alone
    return found
