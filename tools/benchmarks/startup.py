"""Seconds until a command answers."""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from benchmarks.engine import CONFIGS
from fedseg.commands.main import COMMANDS
from fedseg.data_prep.data_sets import DATA_SETS
from fedseg.data_prep.segmentation import prepare_demo_streets

SETTING = "idda_rainy"
MISTAKES = {
    "a config that is not there": ["train", "idda_rany"],
    "a method that is not there": ["train", SETTING, "--with", "fedasan"],
    "a key that is not there": ["train", SETTING, "--cfg-options", "train_cfg.max_round=3"],
    "a type that is not there": ["train", SETTING, "--cfg-options", "algorithm.type=FedAvgg"],
    "data that are not there": ["train", SETTING],
    "data to prepare that are not there": ["prepare", "idda"],
    "a checkpoint that is not there": ["test", SETTING, "nowhere.pth"],
    "a run that is not there": ["compare", "nowhere", "neither"],
}
WITHOUT = ["val_dataloader.corrupted=None", "test_dataloader.corrupted=None"]
PLANS = {
    "small images": ["demo_shapes", "--cfg-options", "data_root=shapes", *WITHOUT],
    "street scenes": ["demo_leaderboard", "--cfg-options", "data_root=streets"],
}


def startup(folder: Path, repeats: Annotated[int, "of each command"] = 3) -> dict[str, float]:
    """Processor seconds (user and system) of commands, the median of a few.

    On a machine that does nothing else they are about what a user waits.
    """
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(CONFIGS.parent)}
    words = [[name] for name in COMMANDS if name != "prepare"]
    words += [["prepare", name] for name in DATA_SETS]
    helps = {line[-1]: seconds([*line, "--help"], folder, repeats, 0) for line in words}
    slowest = max(helps, key=helps.__getitem__)
    measured = {f"--help, the slowest ({slowest})": helps[slowest]}
    for mistake, line in MISTAKES.items():
        measured[mistake] = seconds(line, folder, repeats, 2)
    shapes = ["prepare", "cifar", "--synthetic", "--root", "shapes", "--partition", "none"]
    seconds(shapes, folder, 1, 0)
    prepare_demo_streets(folder / "streets")
    for name, arguments in PLANS.items():
        line = ["train", "--dry-run", *arguments]
        measured[f"--dry-run, {name}"] = seconds(line, folder, repeats, 0)
    return measured


def seconds(words: list[str], folder: Path, repeats: int, code: int) -> float:
    """Median of the processor seconds of ``fedseg WORDS``, which must end with an exit code."""
    taken = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "fedseg", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != code:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}, not {code}: {done.stderr}")
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)
