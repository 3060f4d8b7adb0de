"""Run many experiments: fedseg sweep CONFIG... --with METHOD... (see --help)."""

from pathlib import Path

from fedseg import cli

EXAMPLES = """
examples:
  three lists of methods in two settings, three seeds each, two runs at a time:
    fedseg sweep configs/settings/cifar10_a0.py configs/settings/cifar10_a005.py \\
        --with fedavg --with fedasam --with fedasam swa --seeds 0 1 2 --jobs 2
  an ablation of SWA's start and cycle, all combinations:
    fedseg sweep configs/settings/cifar100_a05.py --with fedasam swa \\
        --grid averaging.start=0.05 averaging.start=0.5 averaging.start=0.75 \\
        --grid averaging.cycle=5 averaging.cycle=10
The same command again continues where it was stopped: finished runs are skipped, stopped ones
resumed. Runs are in WORK_DIR/<experiment>[,KEY=VALUE...]/seed<seed>, with their output in
output.txt. --amp and --cfg-options apply to all runs and are not part of the name.
"""


def main() -> int:
    parser = cli.parser(
        "Train settings x lists of methods x seeds; ends with the leaderboard.", EXAMPLES
    )
    parser.add_argument(
        "configs",
        type=Path,
        nargs="+",
        metavar="CONFIG",
        help="settings or experiments: names or paths",
    )
    parser.add_argument(
        "--with",
        dest="methods",
        action="append",
        nargs="*",
        default=[],
        metavar="METHOD",
        help="methods merged over every config (none: the config as it is); repeat for more lists",
    )
    parser.add_argument("--seeds", type=int, **cli.MANY, metavar="N", help="default: 0")
    parser.add_argument(
        "--grid",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="values of one axis; repeat for more axes, all combinations are run",
    )
    cli.add_cfg_options(parser, "override config fields in all runs")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at a time (default: 1)"
    )
    parser.add_argument(
        "--work-dir",
        type=cli.folder,
        default=Path("work_dirs"),
        help="folder of all runs (default: work_dirs)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the runs and their hours; train nothing",
    )
    arguments = parser.parse_args()
    from pydantic import PositiveInt

    from fedseg.config.schema import check_value
    from fedseg.runner.sweep import plan_sweep

    check_value("--jobs", arguments.jobs, PositiveInt)
    jobs = plan_sweep(
        arguments.configs,
        arguments.methods,
        arguments.seeds or [0],
        arguments.grid,
        arguments.cfg_options,
        arguments.amp,
        arguments.work_dir,
    )
    from fedseg.leaderboard.sweep import show_plan, show_sweep

    if arguments.dry_run:
        show_plan(jobs, arguments.jobs)
        return 0
    return show_sweep(jobs, arguments.jobs)
