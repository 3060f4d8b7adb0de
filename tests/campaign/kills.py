"""Runs that are killed at random moments and resumed until they are done.

Every algorithm, local loss, average, BatchNorm policy and place of states takes its turn; the rest
is drawn. What a run carries on and its history must be those of the undisturbed run, bit for bit.
"""

import os
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toyseg
from command_line import CommandLine

SGD = {"_delete_": True, "type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}}
MOMENTUM = toyseg.merge(SGD, {"optimizer": {"momentum": 0.9}})
ADAM = {"type": "Adam", "lr": 0.1}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedAvg": {"server_optim": ADAM},
    "FedDyn": {"beta": 10.0},
    "FedGloSS": {"rho_server": 0.05, "beta": 10.0},
    "NaiveFedGloSS": {"rho_server": 0.05, "beta": 10.0, "rho0": 0.01, "rho_rounds": 3},
    "FedProx": {"mu": 0.1},
    "SCAFFOLD": {},
    "FedGamma": {},
    "FedCM": {"alpha": 0.5},
    "FedACG": {"lam": 0.8, "beta": 0.01},
    "AdaBest": {"mu": 0.02, "beta": 0.8},
    "FedSpeed": {"rho": 0.05, "alpha": 0.9, "lam": 100.0},
    "FedSMOO": {"rho": 0.05, "beta": 10.0},
    "MIME": {"momentum": 0.5},
    "MIMELite": {"momentum": 0.5},
}
SAM = {**SGD, "type": "SAMOptimWrapper", "rho": 0.05}
OPTIMIZERS = {"FedGamma": SAM, "FedAvg": MOMENTUM}  # what these need or allow; others: SGD
AVERAGES = (
    None,
    {"_delete_": True, "type": "SWA", "start": 2, "cycle": 1},
    {"_delete_": True, "type": "WIMA", "window": 2},
    {"_delete_": True, "type": "WIMA", "window": 2, "memory_limit": 0},
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOST_KILLS = 4


@dataclass(frozen=True)
class Run:
    """A run that will be killed."""

    id: str
    changes: Mapping[str, Any]  # over toyseg's config
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
    """Runs with every algorithm, in memory and on disk, with and without workers."""
    rng, runs = random.Random(seed), []
    for number, name in enumerate([*ALGORITHMS] * 4):
        hooks = [{"type": "KeptMomentum"}] if name == "FedAvg" and number % 2 else []
        changes = {
            "algorithm": {"type": name, **ALGORITHMS[name]},
            "optim_wrapper": OPTIMIZERS.get(name, SGD),
            "averaging": AVERAGES[(number + number // len(ALGORITHMS)) % len(AVERAGES)],
            "batchnorm": rng.choice([None, {"type": "SiloBN"}]),
            "state_store": {"keep": rng.choice(["memory", "disk"])},
            "train_dataloader": {"num_workers": rng.choice([0, 0, 1, 2])},
            "param_scheduler": rng.choice([None, [{"type": "ExponentialLR", "gamma": 0.9}]]),
            "custom_hooks": hooks,
            "train_cfg": {"max_rounds": rounds, "val_interval": 2},
            "randomness": {"seed": rng.randrange(1000)},
        }
        runs.append(Run(f"kill-{number}", changes, rng.randrange(2**32)))
    rng.shuffle(runs)
    return runs


def kill_and_resume(run: Run, folder: Path) -> Killed:
    """Train undisturbed; train again, killed and resumed; compare."""
    rng, configs, paths = random.Random(run.seed), [], []
    for name in ("whole", "killed"):
        configs.append(toyseg.settings(folder / name, **run.changes))
        paths.append(toyseg.write_config(folder / name / "toy.py", configs[-1]))
    start = time.monotonic()
    process = toyseg.start_cli(paths[0])
    if process.wait():
        return Killed(run, 0, f"the undisturbed run failed: {process.communicate()[1][-500:]}")
    length, history = time.monotonic() - start, []
    for kills in range(MOST_KILLS + 1):
        process = toyseg.start_cli(paths[1], *(["--resume"] if kills else []))
        if kills < MOST_KILLS:
            time.sleep(rng.uniform(0.1, 1) * length)
            history.append(send(process, rng))
        code = process.wait()
        if code == 0:
            found = toyseg.run_differences(*configs)
            return Killed(run, kills, f"after {history}: {found[:3]}" if found else "")
        if kills == MOST_KILLS or code not in (130, *(-number for number in SIGNALS)):
            said = process.communicate()[1][-500:]
            return Killed(run, kills, f"after {history}: exit code {code}: {said}")
    raise AssertionError("unreachable")


def send(process: CommandLine, rng: random.Random) -> str:
    """A random signal to the process or its whole group; what it was."""
    number, whole = rng.choice(SIGNALS), rng.random() < 0.5
    with suppress(ProcessLookupError):
        (os.killpg if whole else os.kill)(process.pid, number)
    return f"{signal.Signals(number).name} to the {'group' if whole else 'process'}"
