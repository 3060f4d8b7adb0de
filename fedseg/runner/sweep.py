"""Many runs as one command: settings x methods x seeds x values, each a process of its own."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmengine.config import Config

from fedseg.checks import shown
from fedseg.config.keys import PLACE, ROLES, keep
from fedseg.errors import ConfigError, DataError, Mistakes, UserError
from fedseg.files import make_folder, open_to_append, read_json
from fedseg.runner.config import LONGEST_NAME
from fedseg.runner.experiment import check, load_config
from fedseg.runs.config import config_digest, config_json

TRAIN = ("-m", "fedseg", "train")
OUTPUT = "output.txt"
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    Attributes:
        options: ``KEY=VALUE`` overrides, those of the grid included.
        state: ``"finished"``, ``"stopped"`` (it is resumed), ``"new"``, or ``"other"``: the folder
            has the results of a run with other options, and this one fails.
        rounds: of the whole run.
    """

    config: Path
    methods: tuple[str, ...]
    options: tuple[str, ...]
    seed: int
    amp: bool
    work_dir: Path = Path()
    state: str = "new"
    rounds: int = 0

    @property
    def command(self) -> list[str]:
        """The command line that trains it."""
        command = [sys.executable, *TRAIN, str(self.config)]
        command += ["--with", *self.methods] if self.methods else []
        command += ["--work-dir", str(self.work_dir), "--seed", str(self.seed), "--quiet"]
        command += ["--amp"] if self.amp else []
        command += ["--cfg-options", *self.options] if self.options else []
        return command + (["--resume"] if self.state == "stopped" else [])

    @property
    def rounds_done(self) -> int:
        """Lines that the run's history has by now; reading them would take longer and longer."""
        try:
            lines = (self.work_dir / "history.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0
        return min(self.rounds, lines)


def plan_sweep(
    configs: Sequence[Path],
    method_lists: Sequence[Sequence[str]],
    seeds: Sequence[int],
    grid: Sequence[Sequence[str]] = (),
    options: Sequence[str] = (),
    amp: bool = False,
    root: Path = Path("work_dirs"),
) -> list[Job]:
    """Every run of a sweep, and how far it is.

    Args:
        method_lists: each combined with every config; none is the same as one empty list.
        grid: axes, each ``[KEY=VALUE, ...]``; every combination of values is run.
        options: ``KEY=VALUE`` overrides of all runs.
        root: runs go to ``<root>/<experiment>[,KEY=VALUE...]/seed<seed>``.
    """
    _check_grid(grid, options)
    jobs: dict[Path, Job] = {}
    folder_of: dict[str, Path] = {}  # of a run, by its config
    mistakes = Mistakes()
    lists, axes = method_lists or [[]], itertools.product(*grid)
    for path, methods, values, seed in itertools.product(configs, lists, axes, seeds):
        with mistakes:
            job = Job(path, tuple(methods), (*options, *values), seed, amp)
            experiment = load_config(path, methods, options=job.options).experiment_name
            name = ",".join([experiment, *(value.replace("/", "_") for value in values)])
            if len(os.fsencode(name)) > LONGEST_NAME:
                raise ConfigError(
                    f"sweep: {shown(name, 80)} is too long for a folder's name: shorten the "
                    "values of --grid"
                )
            folder = root / name / f"seed{seed}"
            if folder in jobs:
                raise ConfigError(f"sweep: {folder} is listed twice; name it once")
            job = replace(job, work_dir=folder)
            config = _read_config(job)
            other = folder_of.setdefault(_identity(config), folder)
            if other != folder:
                raise ConfigError(
                    f"sweep: {other} and {folder} would be the same run, their configs are equal: "
                    "leave one of them out"
                )
            jobs[folder] = _look_up(job, config)
    mistakes.tell()
    return list(jobs.values())


def _check_grid(grid: Sequence[Sequence[str]], options: Sequence[str]) -> None:
    """Raise ConfigError for axes that no value of a run follows."""
    mistakes = Mistakes()
    axis_of: dict[str, int] = {}
    given = {option.partition("=")[0] for option in options}
    for number, value in [(number, value) for number, axis in enumerate(grid) for value in axis]:
        key, separator, _ = value.partition("=")
        if not separator:
            mistakes.add(f"--grid: {value!r} is not of the form KEY=VALUE")
        elif axis_of.setdefault(key, number) != number:
            mistakes.add(f"--grid: {key}: is on two axes: name all values in one")
        elif key in given:
            mistakes.add(f"--grid: {key}: is in --cfg-options, too: leave it out of one")
    if "randomness.seed" in axis_of.keys() | given:
        mistakes.add("sweep: randomness.seed: every run has its own: use --seeds")
    mistakes.tell()


def _read_config(job: Job) -> Config:
    """The complete config of a job, checked."""
    return check(load_config(job.config, job.methods, job.work_dir, job.options, job.seed, job.amp))


def _identity(config: Config) -> str:
    """The text of a config without where its run writes and what it is called."""
    roles = [role for role in ROLES if role != PLACE]
    return config_json(keep(config.to_dict(), *roles))


def _look_up(job: Job, config: Config) -> Job:
    """A job with its present state, which others may change between the plan and its turn."""
    results, state = job.work_dir / "results.json", "finished"
    if results.is_file():
        fix = "remove it to run it again"
        made = read_json(results, fix)
        if not isinstance(made, dict) or "config_sha256" not in made:
            raise DataError(f"{results}: is not a fedseg result: {fix}")
        if made["config_sha256"] != config_digest(config):
            state = "other"
    else:
        from fedseg.runner.work_dir import unfinished  # imports torch

        state = "stopped" if unfinished(job.work_dir) else "new"
    return replace(job, state=state, rounds=config.train_cfg.max_rounds)


def run_sweep(
    jobs: Sequence[Job], at_once: int, on_change: Callable[[Sequence[Job]], None]
) -> Iterator[tuple[Job, float, str | None]]:
    """Run what is not finished, so many at once; a run that fails does not stop the others.

    Args:
        on_change: called with the runs under way, twice a second.

    Yields:
        (job, seconds, None or what went wrong) of every run that has ended.
    """
    waiting = [job for job in jobs if job.state != "finished"][::-1]
    active: dict[Job, tuple[subprocess.Popen, float]] = {}
    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                job, begin = waiting.pop(), time.monotonic()
                try:
                    now = _look_up(job, _read_config(job))
                except UserError as error:
                    yield job, 0.0, str(error)
                    continue
                if now.state in ("finished", "other"):  # by somebody else, since the plan was made
                    yield job, 0.0, _refusal(job) if now.state == "other" else None
                    continue
                active[job] = _start(now), begin
            for job, (process, begin) in list(active.items()):
                if process.poll() is not None:
                    del active[job]
                    yield job, time.monotonic() - begin, _failure(job, process.returncode)
            on_change(list(active))
            time.sleep(POLL_SECONDS)
    except BaseException:  # Ctrl-C reaches the runs as well: they save and end by themselves
        for process, _ in active.values():
            process.terminate()
        for process, _ in active.values():
            process.wait()
        raise


def _refusal(job: Job) -> str:
    results = job.work_dir / "results.json"
    return (
        f"{results}: is of a run with other options; give another --work-dir, or remove its folder"
    )


def _start(job: Job) -> subprocess.Popen:
    make_folder(job.work_dir)
    with open_to_append(job.work_dir / OUTPUT) as file:  # of a run under way elsewhere, too
        return subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONSAFEPATH": "1"},  # nothing is imported from this folder
        )


def _failure(job: Job, code: int) -> str | None:
    """Why a run has failed, by the exit code of its process; None if it has not."""
    if code < 0:  # it has said nothing: the last line may be of another day
        ended = f"it was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"{ended}: was there enough memory?" if -code == signal.SIGKILL else ended
    return _last_line(job) if code else None


def _last_line(job: Job) -> str:
    lines = (job.work_dir / OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it ended without output")


def expected_seconds(jobs: Sequence[Job]) -> dict[Job, float | str]:
    """Seconds that each run still needs, rehearsed once for each experiment; or why not known."""
    import tempfile

    from fedseg.runner.plan import make_plan
    from fedseg.runner.runner import FederatedRunner

    rehearsed: dict[tuple, float | str] = {}
    expected: dict[Job, float | str] = {}
    for job in jobs:
        key = job.config, job.methods, job.options
        if job.state in ("finished", "other"):
            expected[job] = _refusal(job) if job.state == "other" else 0.0
            continue
        if key not in rehearsed:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    config = load_config(*key[:2], folder, job.options, job.seed, job.amp)
                    config["log_level"] = "ERROR"
                    runner = FederatedRunner.from_complete(check(config))
                    rehearsed[key] = make_plan(runner).seconds
                except UserError as error:
                    rehearsed[key] = str(error)
        whole = rehearsed[key]
        left = 1 - job.rounds_done / job.rounds if job.state == "stopped" else 1
        expected[job] = whole if isinstance(whole, str) else whole * left
    return expected
