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

from fedseg.checks import shown
from fedseg.config.check import LONGEST_NAME
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.files import make_folder, read_json
from fedseg.runner.experiment import load_config, prepare_config
from fedseg.runs.config import config_digest
from fedseg.units import count_cores

TRAIN = ("-m", "fedseg", "train")
OUTPUT = "output.txt"
THREADS = "OMP_NUM_THREADS"
SECONDS = 1.0  # between two looks at the progress of the runs under way


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    config: Path
    methods: tuple[str, ...]
    options: tuple[str, ...]  # KEY=VALUE overrides, those of the grid included
    seed: int
    amp: bool
    workers: int | str | None  # as --workers of fedseg train
    trackers: tuple[str, ...]  # as --tracker of fedseg train
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
    def train_command(self) -> list[str]:
        """The command line that trains it from the start."""
        command = [sys.executable, *TRAIN, str(self.config)]
        if self.methods:
            command += ["--with", *self.methods]
        command += ["--work-dir", str(self.work_dir), "--seed", str(self.seed), "--quiet"]
        if self.amp:
            command.append("--amp")
        if self.workers is not None:
            command += ["--workers", str(self.workers)]
        if self.trackers:
            command += ["--tracker", *self.trackers]
        if self.options:
            command += ["--cfg-options", *self.options]
        return command

    @property
    def resume_command(self) -> list[str]:
        """The command line that trains it from its newest checkpoint, if it has one."""
        return [*self.train_command, "--resume"]

    @property
    def rounds_done(self) -> int:
        """Lines that the run's history has by now; reading them would take longer and longer."""
        try:
            lines = (self.work_dir / "history.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0
        return min(self.rounds, lines)


@dataclass(frozen=True)
class Slot:
    """What a run under way has of the machine; the next run takes its place."""

    gpu: int | None  # number of the only GPU that it sees; None: it sees all
    threads: int  # of its arithmetic on the CPU


def make_slots(
    jobs: int = 1, gpus: Sequence[int] = (), per_gpu: int = 1, threads: int | None = None
) -> list[Slot]:
    """A slot for each run under way.

    Args:
        jobs: runs at a time without GPUs of their own.
        gpus: each has ``per_gpu`` slots; then ``jobs`` is not read.
        threads: of each run; None: the cores are divided among the slots, and a run has no more
            threads than ``OMP_NUM_THREADS`` if that is set.
    """
    numbers: list[int | None] = [*gpus] * per_gpu if gpus else [None] * jobs
    if threads is None:
        threads = max(1, count_cores() // len(numbers))
        limit = os.environ.get(THREADS, "")
        if limit.isdecimal():
            threads = max(1, min(threads, int(limit)))
    return [Slot(gpu=number, threads=threads) for number in numbers]


def plan_sweep(
    configs: Sequence[Path],
    method_lists: Sequence[Sequence[str]],
    seeds: Sequence[int],
    grid: Sequence[Sequence[str]] = (),
    options: Sequence[str] = (),
    amp: bool = False,
    root: Path = Path("work_dirs"),
    workers: int | str | None = None,
    trackers: Sequence[str] = (),
) -> list[Job]:
    """Every run of a sweep.

    Args:
        method_lists: each combined with every config; none is the same as one empty list.
        grid: axes, each ``[KEY=VALUE, ...]``; every combination of values is run.
        options: ``KEY=VALUE`` overrides of all runs.
        root: runs go to ``<root>/<experiment>[,KEY=VALUE...]/seed<seed>``.
        workers, trackers: of each run, as ``--workers`` and ``--tracker`` of ``fedseg train``.
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
        config = load_config(
            path,
            methods,
            folder,
            overrides,
            seed,
            amp,
            workers=workers,
            trackers=trackers,
        )
        config = prepare_config(config)
        digest = config_digest(config)
        if digest in folder_of:
            raise ConfigError(
                f"sweep: {folder_of[digest]} and {folder} would be the same run, their configs are "
                "equal: leave one of them out"
            )
        folder_of[digest] = folder
        jobs[folder] = Job(
            config=path,
            methods=tuple(methods),
            options=overrides,
            seed=config.randomness.seed,
            amp=amp,
            workers=workers,
            trackers=tuple(trackers),
            work_dir=Path(config.work_dir),
            rounds=config.train_cfg.max_rounds,
        )
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


def find_gpus(names: Sequence[str]) -> list[int]:
    """The numbers of GPUs, ``["all"]`` or ``["0", "1"]``, among those that PyTorch sees.

    Raises:
        ConfigError: one is not there: a run would train on the CPU.
    """
    if not names:
        return []
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        raise ConfigError("--gpus: PyTorch sees no GPU: leave it out to train on the CPU")
    if list(names) == ["all"]:
        return list(range(count))
    gpus = []
    for name in names:
        if not name.isdecimal() or int(name) >= count:
            raise ConfigError(
                f"--gpus: PyTorch sees {count}, and no {name}: give all, or numbers from 0"
            )
        if int(name) in gpus:
            raise ConfigError(f"--gpus: {name} is listed twice: use --per-gpu 2")
        gpus.append(int(name))
    return gpus


def run_sweep(
    jobs: Sequence[Job],
    slots: Sequence[Slot],
    on_change: Callable[[Sequence[Job]], None],
) -> Iterator[tuple[Job, float, str | None]]:
    """Run what is not finished, one run in each slot; one that fails does not stop the others.

    Args:
        on_change: called with the runs under way, about once a second.

    Yields:
        (job, seconds, None or what went wrong) of every run that has ended.
    """
    free: SimpleQueue[Slot] = SimpleQueue()
    for slot in slots:
        free.put(slot)
    processes: dict[Job, subprocess.Popen] = {}
    with ThreadPoolExecutor(len(slots)) as pool:
        waiting = [job for job in jobs if not job.results.is_file()]
        job_of = {pool.submit(_train, job, free, processes): job for job in waiting}
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
    job: Job, free: "SimpleQueue[Slot]", processes: dict[Job, subprocess.Popen]
) -> tuple[float, str | None]:
    """Train one run in a process of its own; returns its seconds, and what went wrong or None."""
    if job.results.is_file():  # of another sweep, since this one began
        return 0.0, None
    begin = time.monotonic()
    slot = free.get()
    try:
        processes[job] = _start(job, slot)
        code = processes[job].wait()
    except UserError as error:  # a folder that cannot be written to
        return 0.0, str(error)
    finally:
        processes.pop(job, None)
        free.put(slot)
    return time.monotonic() - begin, _failure(job, code)


def _start(job: Job, slot: Slot) -> subprocess.Popen:
    """Start the process of a run, with the GPU and the threads of its slot."""
    make_folder(job.work_dir)
    variables = {**os.environ, "PYTHONSAFEPATH": "1"}  # nothing is imported from this folder
    variables[THREADS] = str(slot.threads)
    if slot.gpu is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = visible.split(",") if visible else None
        variables["CUDA_VISIBLE_DEVICES"] = gpus[slot.gpu] if gpus else str(slot.gpu)
    command = job.resume_command if job.state == "stopped" else job.train_command
    with open(job.work_dir / OUTPUT, "ab") as file:  # of a run under way elsewhere, too
        return subprocess.Popen(
            command,
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


def expected_seconds(jobs: Sequence[Job], threads: int) -> dict[Job, float | str]:
    """Seconds that each run still needs, rehearsed once for each experiment; or why not known.

    Args:
        threads: of each run.
    """
    rehearsed: dict[tuple, float | str] = {}
    expected: dict[Job, float | str] = {}
    for job in jobs:
        if job.results.is_file():
            expected[job] = 0.0
            continue
        experiment = job.config, job.methods, job.options
        if experiment not in rehearsed:
            rehearsed[experiment] = _rehearse(job, threads)
        seconds = rehearsed[experiment]
        if isinstance(seconds, float) and job.state == "stopped":
            seconds *= 1 - job.rounds_done / job.rounds
        expected[job] = seconds
    return expected


def _rehearse(job: Job, threads: int) -> float | str:
    """Seconds of a whole run, or why they are not known."""
    import tempfile

    from fedseg.memory import restoring_threads
    from fedseg.runner.plan import make_plan
    from fedseg.runner.runner import FederatedRunner

    with tempfile.TemporaryDirectory() as folder, restoring_threads(threads):
        try:
            config = load_config(job.config, job.methods, folder, job.options, job.seed, job.amp)
            config["log_level"] = "ERROR"
            return make_plan(FederatedRunner.from_complete(prepare_config(config))).seconds
        except UserError as error:
            return str(error)
