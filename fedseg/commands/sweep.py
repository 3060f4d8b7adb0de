"""Run many experiments: fedseg sweep CONFIG... --with METHOD... (see --help)."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedseg import cli
from fedseg.errors import ConfigError

if TYPE_CHECKING:
    from fedseg.runner.sweep import Job, Slot

EXAMPLES = """
examples:
  three lists of methods in two settings, three seeds each, two runs at a time:
    fedseg sweep cifar10_a0 cifar10_a005 \\
        --with fedavg --with fedasam --with fedasam swa --seeds 0 1 2 --jobs 2
  an ablation of SWA's start and cycle, all combinations:
    fedseg sweep cifar100_a05 --with fedasam swa \\
        --grid averaging.start=0.05 averaging.start=0.5 averaging.start=0.75 \\
        --grid averaging.cycle=5 averaging.cycle=10
  on all GPUs of this machine, two runs on each at a time:
    fedseg sweep idda_rainy_batch8 --with silobn --seeds 0 1 2 --gpus all --per-gpu 2
  as a job array of Slurm, one array task a run:
    fedseg sweep idda_rainy_batch8 --with silobn --seeds 0 1 2 --slurm sweep.sbatch
    sbatch --gpus=1 --cpus-per-task=8 --time=24:00:00 sweep.sbatch
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
    text = "runs at a time (default: 1), array tasks at a time with --slurm"
    parser.add_argument("--jobs", type=cli.positive, metavar="N", help=text)
    text = "'all' or numbers of GPUs: each run has one of them (default: all runs share the first)"
    parser.add_argument("--gpus", **cli.MANY, metavar="GPU", help=text)
    text = "runs at a time on each of --gpus (default: 1)"
    parser.add_argument("--per-gpu", type=cli.positive, metavar="N", help=text)
    text = "threads of each run (default: the cores, divided among the runs at a time)"
    parser.add_argument("--threads", type=cli.positive, metavar="N", help=text)
    text = "worker processes that train the clients of each run"
    parser.add_argument("--workers", type=cli.workers, metavar="N", help=text)
    cli.add_trackers(parser)
    style = {"type": cli.folder, "default": Path("work_dirs")}
    parser.add_argument("--work-dir", **style, help="folder of all runs (default: %(default)s)")
    text = "print the runs and their hours; train nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    text = "write the script of a Slurm job array for the runs; train nothing"
    parser.add_argument("--slurm", type=cli.folder, metavar="FILE", help=text)
    arguments = parser.parse_args()
    check_options(arguments)
    from fedseg.runner.sweep import find_gpus, make_slots, plan_sweep

    gpus = find_gpus(arguments.gpus)
    jobs = plan_sweep(
        arguments.configs,
        arguments.methods,
        arguments.seeds or [0],
        arguments.grid,
        arguments.options,
        arguments.amp,
        arguments.work_dir,
        arguments.workers,
        arguments.trackers,
    )
    if arguments.slurm is not None:
        return write_slurm(jobs, arguments.slurm, arguments.jobs, arguments.threads)
    slots = make_slots(arguments.jobs or 1, gpus, arguments.per_gpu or 1, arguments.threads)
    if arguments.dry_run:
        show_plan(jobs, slots)
        return 0
    return show_sweep(jobs, slots)


def check_options(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for options that contradict each other."""
    if arguments.gpus and arguments.jobs:
        raise ConfigError(
            "--jobs: leave it out with --gpus: --per-gpu says how many runs share one"
        )
    if arguments.per_gpu and not arguments.gpus:
        raise ConfigError("--per-gpu: needs --gpus all, or numbers of GPUs")
    if arguments.threads and arguments.workers is not None:
        raise ConfigError(
            "--threads: leave it out with --workers: a worker has executor.cpus_per_worker threads"
        )
    if arguments.slurm is not None and (arguments.gpus or arguments.dry_run):
        raise ConfigError(
            "--slurm: leave out --gpus and --dry-run: sbatch --gpus=1 gives each run a GPU"
        )


def write_slurm(jobs: Sequence["Job"], file: Path, at_once: int | None, threads: int | None) -> int:
    """Write the script of a job array, and print the command that submits it."""
    from fedseg.files import write_text
    from fedseg.runner.slurm import array_script

    count = sum(not job.results.is_file() for job in jobs)
    if count == 0:
        print("all runs are finished: nothing to submit")
        return 0
    write_text(file, array_script(jobs, Path.cwd(), at_once, threads))
    print(f"{count} of {len(jobs)} runs in {file}; submit it, with your resources:")
    print(f"  sbatch --gpus=1 --cpus-per-task=8 --time=24:00:00 {shlex.quote(str(file))}")
    return 0


def label(job: "Job") -> str:
    """Name a run by its experiment and seed: ``cifar10_a005_fedavg seed0``."""
    return f"{job.work_dir.parent.name} {job.work_dir.name}"


def show_plan(jobs: Sequence["Job"], slots: Sequence["Slot"]) -> None:
    """Print every run with its state and the time that it still needs."""
    from rich.console import Console

    from fedseg.runner.sweep import expected_seconds
    from fedseg.runs.tables import TextTable
    from fedseg.units import format_duration

    console = Console()
    threads = slots[0].threads
    with console.status("rehearsing a round of each experiment"):
        seconds = expected_seconds(jobs, threads)
    known = [left for left in seconds.values() if isinstance(left, float)]
    rows = []
    for job, left in seconds.items():
        text = format_duration(left) if isinstance(left, float) else "?"
        rows.append((label(job), job.state, f"{job.rounds_done:,}/{job.rounds:,}", text))
    head = ("run", "state", "rounds", "h:mm:ss left")
    console.print(TextTable("sweep", head, rows, right=(2, 3)).to_rich())
    for reason in dict.fromkeys(left for left in seconds.values() if isinstance(left, str)):
        console.print(reason, style="red", markup=False)
    total = sum(known)
    least = max(total / len(slots), max(known, default=0))
    runs = "1 run" if len(jobs) == 1 else f"{len(jobs)} runs"
    console.print(
        f"{runs}: {format_duration(total)} of computing, at least {format_duration(least)} with "
        f"{len(slots)} at a time; threads of each: {threads}",
        highlight=False,
    )


def show_sweep(jobs: Sequence["Job"], slots: Sequence["Slot"]) -> int:
    """Run a sweep with a bar for every run under way, then print the board; 1 if a run failed.

    Args:
        jobs: runs of a plan.
        slots: one for each run at a time.
    """
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.output import print_board
    from fedseg.runner.sweep import run_sweep
    from fedseg.runs.run_files import read_runs
    from fedseg.units import format_duration

    failures: dict[Job, str] = {}
    with cli.progress() as bars:
        say = bars.console.print
        all_runs = bars.add_task("all runs (rounds)", total=sum(job.rounds for job in jobs))
        bar_of = {}
        for job in jobs:
            bar_of[job] = bars.add_task(
                label(job), total=job.rounds, completed=job.rounds_done, visible=False
            )

        def show(active: Sequence["Job"]) -> None:
            for job in active:
                bars.update(bar_of[job], completed=job.rounds_done, visible=True)
            done = sum(task.completed for task in bars.tasks if task.id != all_runs)
            bars.update(all_runs, completed=done)

        for job, seconds, failure in run_sweep(jobs, slots, show):
            bars.update(bar_of[job], completed=job.rounds_done, visible=False)
            if failure is not None:
                failures[job] = failure
            outcome = "finished" if failure is None else "failed"
            say(f"{label(job)}: {outcome} after {format_duration(seconds)}", highlight=False)
    folders = [job.work_dir for job in jobs if job.results.is_file()]
    if folders:
        print_board(build_board(*read_runs(folders)))
    for job, failure in failures.items():
        text = f"{label(job)} failed: {failure} (see {job.work_dir / 'output.txt'})"
        say(text, style="red", markup=False)
    return 1 if failures else 0
