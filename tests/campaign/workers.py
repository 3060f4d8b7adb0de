"""The same bits on any number of workers, on Ray: ``python -m tests.campaign.workers --help``.

BiSeNetV2 on rendered streets (MOON, which is for classifiers: small images) is trained in one
process, on workers, and on workers of which a random one is killed in every round.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray_processes
import torch
import toycls
import toyseg

from fedseg.config.compose import compose
from fedseg.config.layers import CONFIGS
from fedseg.data_prep import idda
from fedseg.parallel.ray_start import start_ray
from tests.campaign.sound import QUIET

SILO = ["silobn", "fedasam", "swa"]
NAIVE = {"algorithm": {"type": "NaiveFedGloSS"}}
RUNS: dict[str, tuple[list[str], dict[str, Any]]] = {  # methods, and what is changed besides
    "FedASAM + SWA + SiloBN": (SILO, {"averaging": {"start": 2, "cycle": 1}}),
    "SCAFFOLD": (["scaffold"], {}),
    "FedGloSS": (["fedgloss_sam"], {}),
    "MIME": (["mime"], {"optim_wrapper": {"optimizer": {"momentum": 0.0}}}),
    "NaiveFedGloSS": (["fedgloss_sgd"], NAIVE),
    "FedDyn": (["feddyn"], {}),
}


def render(folder: Path, size: tuple[int, int], images: int) -> None:
    """Streets with so many images of each client in ``folder / "streets"``."""
    idda.prepare(
        folder / "streets",
        distribution=["heterogeneous"],
        setting=["rainy"],
        synthetic=True,
        size=size,
        limit_per_user=images,
        limit_test=1,
    )


def streets(folder: Path, methods: list[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A small round on the streets in ``folder / "streets"``."""
    config = compose(CONFIGS / "settings" / "demo_streets.py", methods).to_dict()
    del config["setting"], config["methods"]
    size = {"crop_size": (64, 128), "base_size": (72, 128)}
    small = {
        "data_root": str(folder / "streets"),
        "train_dataloader": {
            "batch_size": 2,
            "num_workers": 0,
            "dataset": {
                "pipeline": [
                    {"type": "RandomScaleCrop", "scale": (0.5, 2.0), **size},
                    {"type": "HorizontalFlip", "p": 0.5},
                ]
            },
        },
        "client_sampler": {"clients_per_round": 4},
        "train_cfg": {"amp": False, "local_epochs": 1, "val_interval": 3},
        "default_hooks": {"checkpoint": {"interval": 1}, **QUIET},
    }
    return toyseg.merge(toyseg.merge(config, small), changes)


def configs(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """These runs, without their rounds, work dir and executor."""
    moon = {"local_loss": {"type": "MOON"}, "client_sampler": {"clients_per_round": 4}}
    found = {"MOON": toycls.settings(folder, toycls.write_data(folder / "data"), **moon)}
    if names == ["MOON"]:
        return found
    render(folder, (464, 256), 4)
    found |= {name: streets(folder, *run) for name, run in RUNS.items()}
    return {name: found[name] for name in names}


class KillAWorker:
    """As a hook of the driver: a random worker dies in every round."""

    priority = 50

    def __init__(self, seed: int) -> None:
        self.rng, self.killed = random.Random(seed), 0

    def after_result(self, runner: Any, result: Any) -> None:
        participants = runner.client_sampler.participants(runner.round)
        if result.task.client == participants[0] and result.task.exchange == 0:
            workers = ray_processes.workers_of(os.getpid())
            if workers:
                os.kill(self.rng.choice(workers), signal.SIGKILL)
                self.killed += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.workers", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--rounds", type=int, default=6, help="default: 6")
    parser.add_argument("--only", nargs="+", choices=[*RUNS, "MOON"], default=[*RUNS, "MOON"])
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # as a worker has
    wrong = 0
    start_ray(None, cpus=max(2, *asked.workers), gpus=0)  # one for all runs
    with tempfile.TemporaryDirectory() as scratch:
        for name, config in configs(Path(scratch), asked.only).items():
            rounds, done = {"train_cfg": {"max_rounds": asked.rounds}}, []
            for number, kills in ((0, False), *((n, False) for n in asked.workers), (2, True)):
                folder = Path(scratch) / f"{name} {number} {kills}"
                run = toyseg.merge(config, {**rounds, "work_dir": str(folder / "run")})
                if number:
                    run["executor"] = {"type": "RayExecutor", "num_workers": number}
                runner, killer = toyseg.runner(run), KillAWorker(asked.seed)
                runner._hooks += [killer] * kills
                start = time.monotonic()
                runner.train()
                done.append(run)
                found = toyseg.run_differences(done[0], run)
                wrong += bool(found)
                how = f"{number} workers, {killer.killed} killed" if number else "in process"
                said = found[:3] or "same bits"
                print(f"{name}, {how}: {said}, {time.monotonic() - start:.0f} s", flush=True)
    print("FAILED" if wrong else "passed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
