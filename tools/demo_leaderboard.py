"""Demo: python tools/demo_leaderboard.py. Trains three methods with two seeds, shows a leaderboard.

The runs are short and on synthetic streets; the board is printed, and written as a page that opens
in a browser. It takes minutes on two CPU cores. Stopped (Ctrl-C) and started again, it continues.
"""

import argparse
import os
import sys
from pathlib import Path

from fedseg import cli

ROOT = Path(__file__).resolve().parents[1]
SETTING = Path("configs/settings/demo_leaderboard.py")
METHODS = (("fedavg",), ("scaffold",), ("silobn", "fedasam", "swa"))
SEEDS = (0, 1)
WORK_DIR = Path("work_dirs/demo_leaderboard")
BOARD = WORK_DIR / "board"


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip()).parse_args()
    from fedseg.data_prep.demo_streets import FOLDER, START, prepare_demo_streets
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.page import write_board
    from fedseg.leaderboard.sweep import show_sweep
    from fedseg.runner.sweep import plan_sweep
    from fedseg.runs.run_files import read_runs

    os.chdir(ROOT)  # the configs' data root is relative to it
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two runs at a time have a core each
    print(f"street scenes in {FOLDER}", file=sys.stderr, flush=True)
    prepare_demo_streets()
    jobs = plan_sweep([SETTING], METHODS, SEEDS, options=START, root=WORK_DIR)
    if code := show_sweep(jobs, 2):
        return code
    board = build_board(*read_runs([WORK_DIR]))
    page = write_board(board, BOARD)[-1]
    print(f"\nopen this page in a browser: {page.resolve().as_uri()}")
    return 0


if __name__ == "__main__":
    cli.run(main)
