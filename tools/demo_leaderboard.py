"""Demo: python tools/demo_leaderboard.py. Trains three methods with two seeds, shows a leaderboard.

The runs are short and on synthetic streets; the board is printed, and written as a page that opens
in a browser. It takes minutes on two CPU cores. Stopped (Ctrl-C) and started again, it continues.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from fedseg import cli

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("fedavg", "scaffold", "silobn_fedasam_swa")
CONFIGS = tuple(Path(f"configs/demo_leaderboard_{method}.py") for method in METHODS)
SEEDS = (0, 1)
WORK_DIR = Path("work_dirs/demo_leaderboard")
BOARD = WORK_DIR / "board"
DATA = Path("data/demo_leaderboard")

IMAGE_SIZE = (232, 128)  # width, height, as in the configs


def is_finished(config: Any) -> bool:
    """Whether the work dir holds the finished run of this very config."""
    from fedseg.errors import DataError
    from fedseg.runner.config import complete_config
    from fedseg.runs.results import config_digest
    from fedseg.runs.schema import FILE_NAME, read_results

    try:
        found = read_results(Path(config.work_dir) / FILE_NAME)
    except DataError:
        return False
    return found.config_sha256 == config_digest(complete_config(config))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip()).parse_args()
    warnings.filterwarnings("ignore", module="mmcv|mmseg|mmengine")
    from data_prep.demo_streets import prepare_demo_streets
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.collect import read_runs
    from fedseg.leaderboard.export import write_board
    from fedseg.leaderboard.text import print_board
    from fedseg.runner.experiment import load_config, train, unfinished

    os.chdir(ROOT)  # the configs' data root is relative to it
    begin = time.perf_counter()
    runs = [(config, seed) for config in CONFIGS for seed in SEEDS]
    steps = len(runs) + 2
    say(f"1/{steps} street scenes in {DATA}")
    prepare_demo_streets(DATA, IMAGE_SIZE)
    for step, (path, seed) in enumerate(runs, start=2):
        work_dir = WORK_DIR / path.stem / f"seed_{seed}"
        config = load_config(path, work_dir=work_dir, seed=seed)
        if is_finished(config):
            say(f"{step}/{steps} {work_dir} is finished already")
            continue
        config["resume"] = unfinished(config)
        again = ", continuing where it stopped" if config.resume else ""
        say(f"{step}/{steps} training {path} with seed {seed} in {work_dir}{again}")
        train(config)
    minutes, seconds = divmod(round(time.perf_counter() - begin), 60)
    say(f"{steps}/{steps} the leaderboard, after {minutes} min {seconds} s")
    board = build_board(*read_runs([WORK_DIR]))
    print_board(board)
    page = write_board(board, BOARD)[-1]
    print(f"\nopen this page in a browser: {page.resolve().as_uri()}")
    return 0


if __name__ == "__main__":
    cli.run(main)
