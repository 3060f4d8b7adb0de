"""Leaderboard of finished runs: python tools/leaderboard.py RUNS... (--help tells the options)."""

import argparse
import sys
import warnings
from pathlib import Path

from fedseg import cli

EXAMPLES = """examples:
    python tools/leaderboard.py work_dirs
    python tools/leaderboard.py work_dirs --out board
    python tools/leaderboard.py verify work_dirs/camvid_fedavg
    python tools/leaderboard.py screenshots board --out docs/pictures
"""


def board_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Put finished runs beside the published numbers: read every results.json below "
        "the folders, group seeds, rank within each benchmark. 'verify RUN' instead recomputes a "
        "run's figures, 'screenshots DIR' takes pictures of a page.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders, at any depth")
    parser.add_argument(
        "--out",
        type=Path,
        help="also write a page (index.html), Markdown, CSV and JSON to this folder",
    )
    parser.add_argument(
        "--all", action="store_true", help="benchmarks without a run too: the published numbers"
    )
    return parser.parse_args()


def verify_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="leaderboard.py verify",
        description="Recompute a run's figures from its newest checkpoint and its history; ends "
        "with code 1 and their names if some are not what results.json says. On the machine of the "
        "run they must be the same bits, elsewhere within 0.05 percentage points.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a work dir")
    parser.add_argument("--config", type=Path, help="default: the copy in the work dir")
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="override config fields, for example data_root=data/idda",
    )
    return parser.parse_args(sys.argv[2:])


def screenshot_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="leaderboard.py screenshots",
        description="Take pictures of a page in light, in dark and at a phone's width, with the "
        "Chromium that is installed.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="what --out has written")
    parser.add_argument("--out", type=Path, required=True, help="where the pictures go")
    return parser.parse_args(sys.argv[2:])


def show_board(arguments: argparse.Namespace) -> int:
    from fedseg.leaderboard.board import build_board, read_runs
    from fedseg.leaderboard.output import print_board, write_board
    from fedseg.leaderboard.page import write_page

    board = build_board(*read_runs(arguments.runs))
    print_board(board, everything=arguments.all)
    if arguments.out is not None:
        paths = write_board(board, arguments.out, everything=arguments.all)
        for path in (*paths, write_page(board, arguments.out, everything=arguments.all)):
            print(path)
    return 0 if board.runs else 2


def verify_run(arguments: argparse.Namespace) -> int:
    warnings.filterwarnings("ignore", module="mmcv|mmseg|mmengine")
    from fedseg.leaderboard.verify import verify

    found = verify(arguments.run, arguments.config, arguments.cfg_options)
    tolerance = "the same bits"
    if found.tolerance:
        tolerance = f"within {found.tolerance:g} percentage points ({found.elsewhere})"
    if found.passed:
        print(f"{found.folder}: all {found.compared} numbers are as recorded, {tolerance}")
        return 0
    for difference in found.differences:
        print(f"{found.folder}: {difference}", file=sys.stderr)
    print(
        f"{found.folder}: {len(found.differences)} of {found.compared} numbers are not as "
        f"recorded, {tolerance}",
        file=sys.stderr,
    )
    return 1


def take_screenshots(arguments: argparse.Namespace) -> int:
    from fedseg.leaderboard.page_screenshots import take_screenshots

    for path in take_screenshots(arguments.folder, arguments.out):
        print(path)
    return 0


def main() -> int:
    if sys.argv[1:2] == ["verify"]:
        return verify_run(verify_arguments())
    if sys.argv[1:2] == ["screenshots"]:
        return take_screenshots(screenshot_arguments())
    return show_board(board_arguments())


if __name__ == "__main__":
    cli.run(main)
