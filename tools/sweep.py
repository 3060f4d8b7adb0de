"""Run many experiments: python tools/sweep.py CONFIG... --with METHOD... (see --help)."""

import argparse
import warnings
from pathlib import Path

from fedseg import cli

EXAMPLES = """
examples:
  three methods in two settings, three seeds each, two runs at a time:
    python tools/sweep.py configs/settings/cifar10_a0.py configs/settings/cifar10_a005.py \\
        --with fedavg --with fedasam --with fedasam swa --seeds 0 1 2 --jobs 2
  an ablation of SWA's start and cycle, every combination of them:
    python tools/sweep.py configs/settings/cifar100_a05.py --with fedasam swa \\
        --grid averaging.start=0.05 averaging.start=0.5 averaging.start=0.75 \\
        --grid averaging.cycle=5 averaging.cycle=10
The same command again goes on where it was stopped: finished runs are skipped, stopped ones
resumed. Runs lie in WORK_DIR/<experiment>/seed<seed>, each with its output in output.txt.
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run settings x methods x seeds; skip what is finished, end with the board.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG")
    parser.add_argument(
        "--with",
        dest="methods",
        action="append",
        nargs="*",
        default=[],
        metavar="METHOD",
        help="methods merged over every config (none: the config as it is); repeat for more lists",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument(
        "--grid",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="values to try; give it again for another axis",
    )
    parser.add_argument("--cfg-options", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time")
    parser.add_argument("--work-dir", type=Path, default=Path("work_dirs"))
    parser.add_argument(
        "--dry-run", action="store_true", help="list the runs and the hours they need; run nothing"
    )
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    warnings.filterwarnings("ignore", module="mmcv|mmseg|mmengine")
    from fedseg.checks import check_int
    from fedseg.leaderboard.sweep import show_plan, show_sweep
    from fedseg.runner.sweep import plan_sweep

    check_int("--jobs", arguments.jobs)
    jobs = plan_sweep(
        arguments.configs,
        arguments.methods,
        arguments.seeds,
        arguments.grid,
        arguments.cfg_options,
        arguments.amp,
        arguments.work_dir,
    )
    if arguments.dry_run:
        show_plan(jobs, arguments.jobs)
        return 0
    return show_sweep(jobs, arguments.jobs)


if __name__ == "__main__":
    cli.run(main)
