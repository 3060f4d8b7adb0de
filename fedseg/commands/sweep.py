"""Run many experiments: fedseg sweep CONFIG... --with METHOD... (see --help)."""

from pathlib import Path

from fedseg import cli

EXAMPLES = """
examples:
  three lists of methods in two settings, three seeds each, two runs at a time:
    fedseg sweep cifar10_a0 cifar10_a005 \\
        --with fedavg --with fedasam --with fedasam swa --seeds 0 1 2 --jobs 2
  an ablation of SWA's start and cycle, all combinations:
    fedseg sweep cifar100_a05 --with fedasam swa \\
        --grid averaging.start=0.05 averaging.start=0.5 averaging.start=0.75 \\
        --grid averaging.cycle=5 averaging.cycle=10
  two runs at a time, each on a GPU of its own:
    fedseg sweep idda_rainy_batch8 --with silobn --seeds 0 1 2 --gpus 0 1
The same command continues after an interruption: it skips finished runs and resumes stopped ones.
Runs are in WORK_DIR/<experiment>[,KEY=VALUE...]/seed<seed>, with their output in output.txt. --amp
and --cfg-options apply to all runs and are not part of the name.
"""


def main() -> int:
    parser = cli.parser(
        "Train settings x lists of methods x seeds; ends with the leaderboard.", EXAMPLES
    )
    text = "settings or experiments: names or paths"
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG", help=text)
    text = "methods to merge over every config (may be empty); repeat for more lists"
    lists = {"action": "append", "default": []}
    parser.add_argument("--with", dest="methods", **lists, nargs="*", metavar="METHOD", help=text)
    parser.add_argument("--seeds", type=int, **cli.MANY, metavar="N", help="default: 0")
    text = "values of one axis; repeat for more axes: all combinations are run"
    parser.add_argument("--grid", **lists, nargs="+", metavar="KEY=VALUE", help=text)
    cli.add_cfg_options(parser, "override config fields in all runs")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    text = "runs at a time (default: 1, or one for each of --gpus)"
    parser.add_argument("--jobs", type=cli.positive, metavar="N", help=text)
    text = "GPUs by number: each run has one of them (default: all runs share the first)"
    parser.add_argument("--gpus", type=cli.natural, **cli.MANY, metavar="GPU", help=text)
    style = {"type": cli.folder, "default": Path("work_dirs")}
    parser.add_argument("--work-dir", **style, help="folder of all runs (default: %(default)s)")
    text = "print the runs and their hours; train nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    arguments = parser.parse_args()
    from fedseg.runner.sweep import check_gpus, plan_sweep

    jobs = plan_sweep(
        arguments.configs,
        arguments.methods,
        arguments.seeds or [0],
        arguments.grid,
        arguments.options,
        arguments.amp,
        arguments.work_dir,
    )
    check_gpus(arguments.gpus)
    at_once = arguments.jobs or max(1, len(arguments.gpus))
    from fedseg.leaderboard.sweep import show_plan, show_sweep

    if arguments.dry_run:
        show_plan(jobs, at_once)
        return 0
    return show_sweep(jobs, at_once, arguments.gpus)
