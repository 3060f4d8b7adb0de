"""A sweep on the terminal: its plan with hours, its progress, the board at its end."""

from collections.abc import Sequence

from rich.console import Console

from fedseg.cli import progress
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.output import print_board
from fedseg.runner.sweep import Job, expected_seconds, run_sweep
from fedseg.runs.run_files import read_runs
from fedseg.runs.tables import TextTable
from fedseg.units import format_duration


def label(job: Job) -> str:
    """A run in words: ``cifar10_a005_fedavg seed0``."""
    return f"{job.work_dir.parent.name} {job.work_dir.name}"


def show_plan(jobs: Sequence[Job], at_once: int) -> None:
    """Print every run with its state and the time that it still needs."""
    console = Console()
    with console.status("rehearsing a round of each experiment"):
        seconds = expected_seconds(jobs)
    known = [left for left in seconds.values() if isinstance(left, float)]
    rows = []
    for job, left in seconds.items():
        text = format_duration(left) if isinstance(left, float) else "?"
        rows.append((label(job), job.state, f"{job.rounds_done:,}/{job.rounds:,}", text))
    head = ("run", "state", "rounds", "h:mm:ss left")
    console.print(TextTable("sweep", head, rows, right=(2, 3)).to_rich())
    for reason in dict.fromkeys(left for left in seconds.values() if isinstance(left, str)):
        console.print(reason, style="red", markup=False)
    console.print(
        f"{len(jobs)} run{'s' * (len(jobs) > 1)}: {format_duration(sum(known))} of computing, at "
        f"least {format_duration(max(sum(known) / at_once, max(known, default=0)))} with "
        f"{at_once} at a time on separate cores",
        highlight=False,
    )


def show_sweep(jobs: Sequence[Job], at_once: int, gpus: Sequence[int] = ()) -> int:
    """Run a sweep with a bar for every run under way, then print the board; 1 if a run failed.

    Args:
        at_once: runs at a time.
        gpus: those that the runs under way are given, one each.
    """
    failures: dict[Job, str] = {}
    with progress() as bars:
        say = bars.console.print
        every = bars.add_task("all runs (rounds)", total=sum(job.rounds for job in jobs))
        bar_of = {
            job: bars.add_task(
                label(job), total=job.rounds, completed=job.rounds_done, visible=False
            )
            for job in jobs
        }

        def show(active: Sequence[Job]) -> None:
            for job in active:
                bars.update(bar_of[job], completed=job.rounds_done, visible=True)
            done = sum(task.completed for task in bars.tasks if task.id != every)
            bars.update(every, completed=done)

        for job, seconds, failure in run_sweep(jobs, at_once, show, gpus):
            bars.update(bar_of[job], completed=job.rounds_done, visible=False)
            if failure is not None:
                failures[job] = failure
            how = "failed" if failure else "finished"
            say(f"{label(job)}: {how} after {format_duration(seconds)}", highlight=False)
    folders = [job.work_dir for job in jobs if job.results.is_file()]
    if folders:
        print_board(build_board(*read_runs(folders)))
    for job, failure in failures.items():
        text = f"{label(job)} failed: {failure} (see {job.work_dir / 'output.txt'})"
        say(text, style="red", markup=False)
    return 1 if failures else 0
