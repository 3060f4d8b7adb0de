"""Many runs as one command: settings x methods x seeds x values, each a process of its own."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mmengine.config import Config

from fedseg.checks import shown
from fedseg.config.check import LONGEST_NAME
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.files import make_folder, read_json
from fedseg.runner.experiment import load_config, prepare_config
from fedseg.runs.config import config_digest

TRAIN = ("-m", "fedseg", "train")
OUTPUT = "output.txt"
SECONDS = 1.0  # between two looks at the progress of the runs under way


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    config: Path
    methods: tuple[str, ...]
    options: tuple[str, ...]  # KEY=VALUE overrides, those of the grid included
    seed: int
    amp: bool
    work_dir: Path
    rounds: int  # of the whole run

    @property
    def results(self) -> Path:
        """The file that a finished run has."""
        return self.work_dir / "results.json"

    @property
    def state(self) -> str:
        """``"finished"``, ``"stopped"`` (it is resumed) or ``"new"``, by the present files."""
        from fedseg.runner.work_dir import unfinished  # imports torch, which takes seconds

        if self.results.is_file():
            return "finished"
        return "stopped" if unfinished(self.work_dir) else "new"

    @property
    def command(self) -> list[str]:
        """The command line that trains it."""
        command = [sys.executable, *TRAIN, str(self.config)]
        if self.methods:
            command += ["--with", *self.methods]
        command += ["--work-dir", str(self.work_dir), "--seed", str(self.seed), "--quiet"]
        if self.amp:
            command.append("--amp")
        if self.options:
            command += ["--cfg-options", *self.options]
        if self.state == "stopped":
            command.append("--resume")
        return command

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
    """Every run of a sweep.

    Args:
        method_lists: each combined with every config; none is the same as one empty list.
        grid: axes, each ``[KEY=VALUE, ...]``; every combination of values is run.
        options: ``KEY=VALUE`` overrides of all runs.
        root: runs go to ``<root>/<experiment>[,KEY=VALUE...]/seed<seed>``.
    """
    _check_grid(grid, options)
    jobs: dict[Path, Job] = {}
    folder_of: dict[str, Path] = {}  # of a run, by its config's digest
    lists, axes = method_lists or [[]], itertools.product(*grid)
    for path, methods, values, seed in itertools.product(configs, lists, axes, seeds):
        overrides = (*options, *values)
        experiment = load_config(path, methods, options=overrides).experiment_name
        folder = root / _name(experiment, values) / f"seed{seed}"
        if folder in jobs:
            raise ConfigError(f"sweep: {folder} is listed twice; name it once")
        config = prepare_config(load_config(path, methods, folder, overrides, seed, amp))
        digest = config_digest(config)
        if digest in folder_of:
            raise ConfigError(
                f"sweep: {folder_of[digest]} and {folder} would be the same run, their configs are "
                "equal: leave one of them out"
            )
        folder_of[digest] = folder
        jobs[folder] = _job(path, methods, overrides, amp, config)
        _check_results(jobs[folder].results, digest)
    return list(jobs.values())


def _check_grid(grid: Sequence[Sequence[str]], options: Sequence[str]) -> None:
    """Raise ConfigError for axes that no value of a run follows."""
    option_keys = {option.partition("=")[0] for option in options}
    axis_of: dict[str, int] = {}
    for number, axis in enumerate(grid):
        for value in axis:
            key, separator, _ = value.partition("=")
            if not separator:
                raise ConfigError(f"--grid: {value!r} is not of the form KEY=VALUE")
            if key in option_keys:
                raise ConfigError(f"--grid: {key}: is in --cfg-options, too: leave it out of one")
            if axis_of.setdefault(key, number) != number:
                raise ConfigError(f"--grid: {key}: is on two axes: name all values in one")
    if "randomness.seed" in axis_of.keys() | option_keys:
        raise ConfigError("sweep: randomness.seed: every run has its own: use --seeds")


def _name(experiment: str, values: Sequence[str]) -> str:
    """The name of a run's folder: its experiment and the values of the grid."""
    name = ",".join([experiment, *(value.replace("/", "_") for value in values)])
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ConfigError(
            f"sweep: {shown(name, 80)} is too long for a folder's name: shorten the values of "
            "--grid"
        )
    return name


def _job(
    path: Path, methods: Sequence[str], options: Sequence[str], amp: bool, config: Config
) -> Job:
    """The run of a complete config."""
    return Job(
        config=path,
        methods=tuple(methods),
        options=tuple(options),
        seed=config.randomness.seed,
        amp=amp,
        work_dir=Path(config.work_dir),
        rounds=config.train_cfg.max_rounds,
    )


def _check_results(results: Path, digest: str) -> None:
    """Raise ConfigError where a folder has the results of a run with other options."""
    if not results.is_file():
        return
    fix = "remove it to run it again"
    content = read_json(results, fix)
    if not isinstance(content, dict) or "config_sha256" not in content:
        raise DataError(f"{results}: is not a fedseg result: {fix}")
    if content["config_sha256"] != digest:
        raise ConfigError(
            f"{results}: is of a run with other options; give another --work-dir, or remove its "
            "folder"
        )


def check_gpus(gpus: Sequence[int]) -> None:
    """Raise ConfigError for a GPU that PyTorch does not see: a run would train on the CPU."""
    import torch

    count = torch.cuda.device_count()
    for gpu in gpus:
        if gpu >= count:
            raise ConfigError(f"--gpus: PyTorch sees {count} GPUs, numbered from 0, and no {gpu}")


def run_sweep(
    jobs: Sequence[Job],
    at_once: int,
    on_change: Callable[[Sequence[Job]], None],
    gpus: Sequence[int] = (),
) -> Iterator[tuple[Job, float, str | None]]:
    """Run what is not finished, so many at once; a run that fails does not stop the others.

    Args:
        on_change: called with the runs under way, about once a second.
        gpus: every run under way has one of them, which others have too if there are fewer GPUs
            than runs; none: the runs see all of the machine's.

    Yields:
        (job, seconds, None or what went wrong) of every run that has ended.
    """
    free_gpus: SimpleQueue[int | None] = SimpleQueue()
    for gpu in itertools.islice(itertools.cycle(gpus or [None]), at_once):
        free_gpus.put(gpu)
    processes: dict[Job, subprocess.Popen] = {}
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [job for job in jobs if not job.results.is_file()]
        job_of = {pool.submit(_train, job, free_gpus, processes): job for job in waiting}
        pending = set(job_of)
        try:
            while pending:
                ended, pending = wait(pending, SECONDS, FIRST_COMPLETED)
                for future in ended:
                    yield job_of[future], *future.result()
                on_change([job_of[future] for future in pending if future.running()])
        except BaseException:  # Ctrl-C reaches the runs as well: they save and end by themselves
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(processes.values()):
                process.terminate()
            raise


def _train(
    job: Job, free_gpus: "SimpleQueue[int | None]", processes: dict[Job, subprocess.Popen]
) -> tuple[float, str | None]:
    """Train one run in a process of its own; returns its seconds, and what went wrong or None."""
    if job.results.is_file():  # of another sweep, since this one began
        return 0.0, None
    begin = time.monotonic()
    gpu = free_gpus.get()
    try:
        processes[job] = _start(job, gpu)
        code = processes[job].wait()
    except UserError as error:  # a folder that cannot be written to
        return 0.0, str(error)
    finally:
        processes.pop(job, None)
        free_gpus.put(gpu)
    return time.monotonic() - begin, _failure(job, code)


def _start(job: Job, gpu: int | None) -> subprocess.Popen:
    """Start the process of a run, which sees this GPU alone; None: all of them."""
    make_folder(job.work_dir)
    variables = {**os.environ, "PYTHONSAFEPATH": "1"}  # nothing is imported from this folder
    if gpu is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        variables["CUDA_VISIBLE_DEVICES"] = visible.split(",")[gpu] if visible else str(gpu)
    with open(job.work_dir / OUTPUT, "ab") as file:  # of a run under way elsewhere, too
        return subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=variables,
        )


def _failure(job: Job, code: int) -> str | None:
    """Why a run has failed, by the exit code of its process; None if it has not."""
    if code == 0:
        return None
    if code > 0:
        return _last_line(job)
    # a killed run has said nothing: the last line may be of another day
    ended = f"it was ended by signal {-code} ({signal.strsignal(-code)})"
    return f"{ended}: was there enough memory?" if -code == signal.SIGKILL else ended


def _last_line(job: Job) -> str:
    lines = (job.work_dir / OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it ended without output")


def expected_seconds(jobs: Sequence[Job]) -> dict[Job, float | str]:
    """Seconds that each run still needs, rehearsed once for each experiment; or why not known."""
    rehearsed: dict[tuple, float | str] = {}
    expected: dict[Job, float | str] = {}
    for job in jobs:
        if job.results.is_file():
            expected[job] = 0.0
            continue
        experiment = job.config, job.methods, job.options
        if experiment not in rehearsed:
            rehearsed[experiment] = _rehearse(job)
        seconds = rehearsed[experiment]
        if isinstance(seconds, float) and job.state == "stopped":
            seconds *= 1 - job.rounds_done / job.rounds
        expected[job] = seconds
    return expected


def _rehearse(job: Job) -> float | str:
    """Seconds of a whole run, or why they are not known."""
    import tempfile

    from fedseg.runner.plan import make_plan
    from fedseg.runner.runner import FederatedRunner

    with tempfile.TemporaryDirectory() as folder:
        try:
            config = load_config(job.config, job.methods, folder, job.options, job.seed, job.amp)
            config["log_level"] = "ERROR"
            return make_plan(FederatedRunner.from_complete(prepare_config(config))).seconds
        except UserError as error:
            return str(error)
