"""Leaderboard of finished runs: fedseg leaderboard RUNS... (see --help)."""

import argparse
import sys
from pathlib import Path

from fedseg import cli

EXAMPLES = """examples:
    fedseg leaderboard work_dirs
    fedseg leaderboard work_dirs --out board
    fedseg leaderboard work_dirs --all --further
    fedseg leaderboard verify work_dirs/camvid_fedavg
"""
MOST = 50  # differences that are printed


def show_board() -> int:
    parser = cli.parser(
        "Compare finished runs with published numbers: read every results.json below "
        "the folders, group seeds, rank within each benchmark. 'verify RUN' recomputes the metrics "
        "of a run instead (see 'verify --help').",
        EXAMPLES,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders, at any depth")
    text = "also write a page (index.html), Markdown, LaTeX and CSV to this folder"
    parser.add_argument("--out", type=cli.folder, help=text)
    text = "also show the published numbers without a run, as the page always does"
    parser.add_argument("--all", action="store_true", help=text)
    text = "Hessian, FLOPs, parameters, time; centralized training and variants"
    text = f"also show values that are not ranked: {text}"
    parser.add_argument("--further", action="store_true", help=text)
    text = "every reason why a run is not comparable (default: the decisive one)"
    parser.add_argument("--why", action="store_true", help=text)
    arguments = parser.parse_args()
    if not arguments.all and not any(path.exists() for path in arguments.runs):
        cli.check_there(arguments.runs)
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.output import print_board
    from fedseg.runs.run_files import read_runs

    board = build_board(*read_runs(arguments.runs))
    print_board(board, everything=arguments.all, further=arguments.further, why=arguments.why)
    if arguments.out is not None:
        from fedseg.leaderboard.page import write_board

        print(*write_board(board, arguments.out, arguments.all, arguments.further), sep="\n")
    return 0 if board.runs else 2


def verify_run() -> int:
    parser = argparse.ArgumentParser(
        prog=f"{Path(sys.argv[0]).name} verify",
        description="Recompute the metrics of a run from its newest checkpoint and its history. "
        "On the machine of the run they must be bit-exact, elsewhere within 0.05 percentage "
        "points. If they are not, names the differing metrics and exits with code 1. Runs of "
        "others are safe to verify: nothing in them is executed, and only classes of fedseg are "
        "built from the recorded config.",
    )
    parser.add_argument("run", type=cli.run_path, metavar="RUN", help="work dir of the run")
    text = "a config of your own, which is executed (default: the recorded one, read as data)"
    parser.add_argument("--config", type=Path, help=text)
    cli.add_trust(parser)
    cli.add_cfg_options(parser, "override config fields, for example data_root=data/idda")
    arguments = parser.parse_args(sys.argv[2:])
    cli.check_there([arguments.run])
    from fedseg.leaderboard.verify import verify

    cli.say_trust(arguments.trust)
    outcome = verify(arguments.run, arguments.config, arguments.options, arguments.trust)
    folder = outcome.folder
    count = len(outcome.differences)
    tolerance = "to the last bit"
    if outcome.tolerance:
        tolerance = f"within {outcome.tolerance:g} percentage points ({outcome.elsewhere})"
    if outcome.unchecked:
        names = ", ".join(outcome.unchecked)
        print(f"{folder}: without the training images, data.train has unchecked: {names}")
    if outcome.passed:
        print(f"{folder}: all {outcome.compared} values are as recorded, {tolerance}")
    else:
        lines = [*outcome.differences[:MOST]]
        lines.append(f"{count} of {outcome.compared} values are not as recorded, {tolerance}")
        print(*(f"{folder}: {line}" for line in lines), sep="\n", file=sys.stderr)
    return 0 if outcome.passed else 1


def main() -> int:
    return verify_run() if sys.argv[1:2] == ["verify"] else show_board()
