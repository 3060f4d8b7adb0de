"""Seconds until a command answers: python tools/benchmarks/startup.py (--help lists the options).

Processor seconds (user and system) of each command, the median of a few: on a machine that does
nothing else they are about what a user waits.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from fedseg.commands.main import COMMANDS, DATA_SETS
from fedseg.data_prep.demo_streets import prepare_demo_streets

WORDS = [[name] for name in COMMANDS if name != "prepare"]
WORDS += [["prepare", name] for name in DATA_SETS]
MISTAKES = {
    "a config that is not there": ["train", "idda_rany"],
    "a method that is not there": ["train", "idda_rainy", "--with", "fedasan"],
    "a key that is not there": ["train", "idda_rainy", "--cfg-options", "train_cfg.max_round=3"],
    "a type that is not there": ["train", "idda_rainy", "--cfg-options", "algorithm.type=FedAvgg"],
    "a checkpoint that is not there": ["test", "idda_rainy", "nowhere.pth"],
    "a run that is not there": ["compare", "nowhere", "neither"],
}


def seconds(words: list[str], folder: Path, repeats: int) -> float:
    """Median of the processor seconds of ``fedseg WORDS``."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "fedseg", *words], cwd=folder, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(default: 3)")
    repeats = parser.parse_args().repeats
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        helps = {" ".join(words): seconds([*words, "--help"], folder, repeats) for words in WORDS}
        slowest = max(helps, key=helps.__getitem__)
        rows = {f"--help, the slowest ({slowest})": helps[slowest]}
        rows |= {what: seconds(words, folder, repeats) for what, words in MISTAKES.items()}
        seconds(["prepare", "cifar", "--synthetic", "--root", "shapes"], folder, 1)
        options = ["data_root=shapes", *(f"{k}_dataloader.corrupted=None" for k in ("val", "test"))]
        plan = ["train", "demo_shapes", "--dry-run", "--cfg-options", *options]
        rows["--dry-run, small images"] = seconds(plan, folder, repeats)
        prepare_demo_streets(folder / "data" / "demo_weather")
        plan = ["train", "demo_leaderboard", "--dry-run"]
        rows["--dry-run, street scenes"] = seconds(plan, folder, repeats)
    for what, time in rows.items():
        print(f"| {what} | {time:.2f} |")


if __name__ == "__main__":
    main()
