"""The folder of a run: what it writes there, and what it finds of an earlier one."""

import json
import os
import re
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from mmengine.config import Config

from fedseg.errors import (
    ConfigError,
    DataError,
    Interrupted,
    LoadingError,
    ResourceError,
    TrainingError,
    resource_error,
)
from fedseg.files import make_folder, own_path, read_bytes, remove_temporaries, write_text
from fedseg.runner.checkpoint import checkpoints
from fedseg.runs.config import CONFIG_FILE, config_json, config_text
from fedseg.trust import OWN_PARTS, note_own_parts

OUTPUTS = (
    *(CONFIG_FILE, "history.jsonl", "results.json", "clients.json", "verified.json", "checkpoints"),
    *(OWN_PARTS, "state", "pictures", "vis_data"),
)
MEASURED = ("test", "curvature")  # what is measured of checkpoints, each in a folder with a mark
MARK = ".fedseg.json"  # the folder is a run's, or a test's: its id, and the process that writes
LOCK = ".fedseg.lock"
PREVIOUS = "previous"


@contextmanager
def lock_work_dir(work_dir: str | Path) -> Iterator[Callable[[], None]]:
    """Keep every other process out of a work dir, and links from leading writers out of it.

    The operating system drops the lock of a process that dies, on network file systems too. Yields
    a function to call before each commit: it raises if the folder was moved, removed or replaced,
    so that a run that was stopped meanwhile does not write into another one's folder.

    Raises:
        ConfigError: another process writes there, or a link is where a run writes.
    """
    work_dir = Path(work_dir)
    make_folder(work_dir)
    for name in (*OUTPUTS, *MEASURED, PREVIOUS):
        own_path(work_dir, name)
    lock = FileLock(work_dir / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        holder = _read_mark(work_dir)
        raise ConfigError(
            f"work_dir: {work_dir} is in use by process {holder.get('pid', 'unknown')} on host "
            f"{holder.get('host', 'unknown')}: wait for it, stop it, or name another folder"
        ) from None
    held = _identity(work_dir / LOCK)

    def check() -> None:
        if _identity(work_dir / LOCK) != held:
            raise ConfigError(
                f"work_dir: {work_dir} was moved, removed or replaced during the run, which "
                f"stops: resume it with --work-dir and the folder's new place"
            )

    try:
        remove_temporaries(work_dir)
        _write_mark(work_dir, pid=os.getpid(), host=socket.gethostname())
        yield check
    except OSError as error:
        check()
        path = Path(error.filename or "")
        if not isinstance(error, FileNotFoundError) or not path.is_relative_to(work_dir):
            raise
        raise DataError(
            f"{path}: was moved or removed during the run, which stops: put it back, then resume"
        ) from error
    finally:
        lock.release()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_mark(work_dir: Path) -> dict[str, Any]:
    try:
        mark = json.loads(read_bytes(work_dir / MARK))
    except (OSError, ValueError, RecursionError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _write_mark(work_dir: Path, **changes: Any) -> None:
    write_text(work_dir / MARK, json.dumps({**_read_mark(work_dir), **changes}) + "\n")


def config_copy(cfg: Config) -> Path:
    """The path of the readable config: under the run's name, which has an id in ``cfg``."""
    return Path(cfg.work_dir) / f"{cfg.experiment_name.rpartition('_')[0]}.py"


def write_config(cfg: Config, name: str) -> None:
    """Write the config into the work dir: as data, and for people under the run's own name.

    A file of that name that no run has made, such as the config of a resumed run, is left alone.
    """
    config = cfg.to_dict() | {"experiment_name": name}
    left_out = ("work_dir", "resume", "executor")  # of this call: the next may have others
    recorded = {k: v for k, v in config.items() if k not in left_out}
    root, copy = Path(cfg.work_dir), config_copy(cfg)
    write_text(root / CONFIG_FILE, config_json(recorded))
    note_own_parts(root, config)
    made = _made(root)
    if copy.name not in made:
        if copy.exists():
            return
        _write_mark(root, made=[*made, copy.name])
    # the copy is complete: there is nothing to compose
    plain = {k: v for k, v in config.items() if k not in ("setting", "methods")}
    write_text(copy, config_text(plain))


def start_anew(cfg: Config) -> Path | None:
    """Move what an earlier run left out of the way, and mark the work dir as this run's.

    Only what a run's mark names is moved, and tests and the like that carry a mark of their own.

    Returns:
        Where it was moved to, below the work dir; None if there was nothing.

    Raises:
        ConfigError: what no run has made lies where this one would write, or a test is under way.
    """
    root = Path(cfg.work_dir)
    outputs = [*OUTPUTS, config_copy(cfg).name]
    made = _made(root)
    foreign = [name for name in outputs if os.path.lexists(root / name) and name not in made]
    if foreign:
        raise ConfigError(
            f"work_dir: {root} has {', '.join(foreign)}, which no run has written: "
            "give another --work-dir, or move it away"
        )
    leftovers = [root / name for name in made if (root / name).exists()]
    tests = [mark.parent for name in MEASURED for mark in sorted(root.glob(f"{name}/*/{MARK}"))]
    stamp = time.strftime("%Y%m%d_%H%M%S")
    aside = root / PREVIOUS / f"{stamp}_{uuid.uuid4().hex[:4]}"
    for path in tests:
        with lock_work_dir(path):
            _move(path, aside / path.parent.name / path.name)
    for path in leftovers:
        _move(path, aside / path.name)
    _write_mark(root, run=cfg.experiment_name, made=outputs)
    return aside if leftovers or tests else None


def mark_resumed(cfg: Config) -> None:
    """Mark the work dir of a resumed run, which had no mark if an older version began it."""
    root = Path(cfg.work_dir)
    if not _made(root):
        _write_mark(root, run=cfg.experiment_name, made=OUTPUTS)


def _made(root: Path) -> list[str]:
    """The names that a mark gives, as far as a run writes such names."""
    names = _read_mark(root).get("made")
    return [
        name
        for name in (names if isinstance(names, list) else [])
        if name in OUTPUTS or (isinstance(name, str) and re.fullmatch(r"[^/\\]+\.(py|json)", name))
    ]


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(str(path), str(target))


@contextmanager
def explain_how_to_resume(cfg: Config) -> Iterator[None]:
    """Within it, an error that ends a run says what of it is saved, and how to go on."""
    try:
        yield
    except TrainingError as error:  # going on as before would end in the same way
        saved = checkpoints(Path(cfg.work_dir) / "checkpoints")
        advice = "There is no checkpoint yet"
        if saved:
            advice = (
                f"The newest checkpoint is {saved[-1][1]}: --resume continues from it, or from the "
                "one before if you delete it"
            )
        raise TrainingError(f"{error}. {advice}") from error
    except Exception as error:
        told = resource_error(error) or error
        if not isinstance(told, Interrupted | LoadingError | ResourceError):
            raise
        root = Path(cfg.work_dir)
        again = cfg.get("resume") or _read_mark(root).get("run") == cfg.experiment_name
        existing = checkpoints(root / "checkpoints") if again else []  # or an earlier run's still
        saved = "no round finished, nothing saved: rerun the command"
        if existing:
            saved = f"rounds 1 to {existing[-1][0]} are saved: {how_to_resume()}"
        advice = type(told)(f"{told}; {saved}")
        advice.details = told.details
        raise advice from error


def how_to_resume() -> str:
    """What continues the run of this process, which a command or a call from Python started."""
    program = Path(sys.argv[0]).name
    if program in ("fedseg train", "train.py"):
        return "the same command with --resume continues"
    if program.startswith("fedseg "):  # a demo resumes by itself
        return "the same command continues"
    return "the same call with resume=True continues"


def set_aside_later(cfg: Config, round_: int, goes_on: bool) -> Path | None:
    """Move what is of rounds after one, and copy the history, before the run goes on from it.

    That is checkpoints and, if the run goes on, the results of an earlier end.
    Returns where they are, below the work dir; None if there was nothing of the kind.
    """
    root = Path(cfg.work_dir)
    later = [path for number, path in checkpoints(root / "checkpoints") if number > round_]
    results = root / "results.json"
    if (later or goes_on) and results.is_file():
        later.append(results)
    if not later:
        return None
    aside = root / PREVIOUS / f"after_round_{round_}_{uuid.uuid4().hex[:4]}"
    aside.mkdir(parents=True)
    if (root / "history.jsonl").is_file():
        shutil.copy2(root / "history.jsonl", aside)
    for path in later:
        _move(path, aside / path.name)
    return aside
