"""Seconds until a command answers: python tools/benchmarks/startup.py (--help lists the options).

Processor seconds (user and system) of each command, the median of a few: on a machine that does
nothing else they are about what a user waits. Those of another version, in a clone beside this one:

    git worktree add ../before 71b46a4
    python tools/benchmarks/startup.py --clone ../before
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

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "fedseg"]
WORDS = [[name] for name in COMMANDS if name != "prepare"]
WORDS += [["prepare", name] for name in DATA_SETS]
SETTING, SHAPES, STREETS = "idda_rainy.py", "demo_shapes.py", "demo_leaderboard.py"
WITHOUT = ["val_dataloader.corrupted=None", "test_dataloader.corrupted=None"]
MISTAKES = {
    "a config that is not there": ["train", "idda_rany.py"],
    "a method that is not there": ["train", SETTING, "--with", "fedasan"],
    "a key that is not there": ["train", SETTING, "--cfg-options", "train_cfg.max_round=3"],
    "a type that is not there": ["train", SETTING, "--cfg-options", "algorithm.type=FedAvgg"],
    "data that are not there": ["train", SETTING],
    "data to prepare that are not there": ["prepare", "idda"],
    "a checkpoint that is not there": ["test", SETTING, "nowhere.pth"],
    "a run that is not there": ["compare", "nowhere", "neither"],
}


def command(words: list[str], clone: Path | None) -> list[str]:
    """The command line of ``fedseg WORDS``, or of what a clone's ``tools`` have for it."""
    configs = (ROOT if clone is None else clone) / "configs" / "settings"
    words = [str(configs / word) if word.endswith(".py") else word for word in words]
    if clone is None:
        return [*COMMAND, *words]
    parts = 2 if words[0] == "prepare" else 1
    return [sys.executable, str(clone / "tools" / f"{'_'.join(words[:parts])}.py"), *words[parts:]]


def seconds(line: list[str], folder: Path, repeats: int, code: int) -> float:
    """Median of the processor seconds of a command line that must end with an exit code."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != code:
            sys.exit(f"{' '.join(line)}: exit code {done.returncode}, not {code}: {done.stderr}")
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--clone", type=Path, help="measure the tools/ of this clone instead")
    arguments = parser.parse_args()
    clone = arguments.clone and arguments.clone.resolve()
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(clone or ROOT)}
    lines = {words[-1]: command([*words, "--help"], clone) for words in WORDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there = {n: line for n, line in lines.items() if clone is None or Path(line[1]).exists()}
        helps = {n: seconds(line, folder, arguments.repeats, 0) for n, line in there.items()}
        slowest = max(helps, key=helps.__getitem__)
        rows = {f"--help, the slowest ({slowest})": helps[slowest]}
        for what, words in MISTAKES.items():
            rows[what] = seconds(command(words, clone), folder, arguments.repeats, 2)
        shapes = ["prepare", "cifar", "--synthetic", "--root", "shapes", "--partition", "none"]
        seconds(command(shapes, clone), folder, 1, 0)
        prepare_demo_streets(folder / "streets")
        plans = {
            "small images": [SHAPES, "--cfg-options", "data_root=shapes", *WITHOUT],
            "street scenes": [STREETS, "--cfg-options", "data_root=streets"],
        }
        for what, words in plans.items():
            line = command(["train", "--dry-run", *words], clone)
            rows[f"--dry-run, {what}"] = seconds(line, folder, arguments.repeats, 0)
    for what, time in rows.items():
        print(f"| {what} | {time:.2f} |")


if __name__ == "__main__":
    main()
