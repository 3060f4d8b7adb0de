"""Runs that are killed at random moments and resumed until they are done.

Every algorithm and average takes its turn, the rest is drawn: what of BatchNorm stays with clients,
loader workers, schedules. What a run carries on and its history must be
those of the undisturbed run, bit for bit.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import toycls
import toyseg
from algorithm_table import ENTRIES
from command_line import CommandLine

SGD = {"_delete_": True, "type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}}
MOMENTUM = toyseg.merge(SGD, {"optimizer": {"momentum": 0.9}})
ADAM = {"type": "Adam", "lr": 0.1}
ALGORITHMS: dict[str, dict[str, Any]] = {
    **{name: entry.options for name, entry in ENTRIES.items()},
    "FedAvg": {"server_optim": ADAM},
    "NaiveFedGloSS": {"rho_server": 0.05, "beta": 10.0, "rho0": 0.01, "rho_rounds": 3},
    "FedExLoRA": {},
}
SAM = {**SGD, "type": "SAMOptimWrapper", "rho": 0.05}
OPTIMIZERS = {"FedGamma": SAM, "FedAvg": MOMENTUM}  # what these need or allow; others: SGD
AVERAGES = (
    None,
    {"_delete_": True, "type": "SWA", "start": 2, "cycle": 1},
    {"_delete_": True, "type": "WIMA", "window": 2},
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PLAIN = ("FedAvg", "FedProx", "FedACG")  # without corrections of each client's own
MOST_KILLS, TIMEOUT = 4, 120


@dataclass(frozen=True)
class Run:
    """A run that will be killed."""

    id: str
    changes: Mapping[str, Any]  # over toyseg's config
    resident: bool  # whether of small images in memory, not of label maps through a loader
    seed: int  # of moments and signals

    def __str__(self) -> str:
        return f"{self.id}: {self.changes}"


@dataclass(frozen=True)
class Killed:
    """How it ended. fault: empty if it is as the undisturbed run."""

    run: Run
    kills: int
    fault: str


def draw_runs(seed: int, rounds: int = 4) -> list[Run]:
    """Runs with every algorithm, with and without loader workers."""
    rng, runs = random.Random(seed), []
    for number, name in enumerate([*ALGORITHMS] * 4):
        policies = [None, toyseg.SILOBN, *([toyseg.FEDBN] if name in PLAIN else [])]
        changes = {
            "algorithm": {"type": name, **ALGORITHMS[name]},
            "optim_wrapper": OPTIMIZERS.get(name, SGD),
            "averaging": AVERAGES[(number + number // len(ALGORITHMS)) % len(AVERAGES)],
            "param_scheduler": rng.choice([None, [{"type": "ExponentialLR", "gamma": 0.9}]]),
            "train_cfg": {"max_rounds": rounds, "val_interval": 2},
            "randomness": {"seed": rng.randrange(1000)},
        }
        changes |= ENTRIES["FlexLoRA" if name == "FedExLoRA" else name].more
        if name == "FedExLoRA":
            changes["averaging"] = None
        resident = name in PLAIN and rng.random() < 0.5
        if resident:  # small images on the device, and a loss that keeps the clients' models
            changes["local_loss"] = {"type": "MOON", "mu": 1.0, "tau": 0.5}
        else:
            changes.setdefault("personal", rng.choice(policies))  # FedBABU and FedRep have theirs
            changes["train_dataloader"] = {"num_workers": rng.choice([0, 1, 2])}
        runs.append(Run(f"kill-{number}", changes, resident, rng.randrange(2**32)))
    rng.shuffle(runs)
    return runs


def kill_and_resume(run: Run, folder: Path) -> Killed:
    """Train undisturbed; train again, killed and resumed; compare."""
    rng, sent = random.Random(run.seed), []
    make = toyseg.settings
    if run.resident:
        make = partial(toycls.settings, root=toycls.write_data(folder / "data"))
    configs = [make(folder / name, **run.changes) for name in ("whole", "killed")]
    whole, other = (
        toyseg.write_config(Path(c["work_dir"]).with_name("toy.py"), c) for c in configs
    )
    start = time.monotonic()
    process = toyseg.start_cli(whole)
    if process.wait():
        return Killed(run, 0, f"the undisturbed run failed: {process.communicate()[1][-500:]}")
    length = time.monotonic() - start
    for _ in range(MOST_KILLS + 1):
        process = toyseg.start_cli(other, *(["--resume"] if sent else []))
        if len(sent) < MOST_KILLS:
            time.sleep(rng.uniform(0.1, 1) * length)
            sent.append(send(process, rng))
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired as error:
            return Killed(run, len(sent), f"after {sent}: hangs: {error.stderr[-500:]}")
        if code not in (130, *(-number for number in SIGNALS)):
            break
    if code:
        return Killed(run, len(sent), f"after {sent}: {code}: {process.communicate()[1][-500:]}")
    found = toyseg.run_differences(*configs)
    return Killed(run, len(sent), f"after {sent}: {found[:3]}" if found else "")


def send(process: CommandLine, rng: random.Random) -> str:
    """A random signal to the process or its whole group; what it was."""
    number, group = rng.choice(SIGNALS), rng.random() < 0.5
    with suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(process.pid, number)
    return f"{signal.Signals(number).name} to the {'group' if group else 'process'}"
