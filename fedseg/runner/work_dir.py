"""The folder of a run: one process at a time writes there, and one run at a time is there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from mmengine.config import Config

from fedseg.errors import (
    ConfigError,
    Interrupted,
    LoadingError,
    ResourceError,
    TrainingError,
    is_system_error,
    system_message,
)
from fedseg.files import make_folder, own_path, remove_temporaries, write_text
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints
from fedseg.runs.config import CONFIG_FILE, config_json, config_text
from fedseg.runs.history import HISTORY, read_history
from fedseg.trust import OWN_PARTS, note_own_parts

RESULTS = "results.json"
# what a run writes, and what is measured of its checkpoints
OUTPUTS = (
    CONFIG_FILE,
    HISTORY,
    RESULTS,
    "clients.json",
    OWN_PARTS,
    CHECKPOINTS,
    "state",
    "pictures",
    "vis_data",
    "test",
    "curvature",
)
LOCK = ".fedseg.lock"
COPY_NOTE = "# The config of the run in this folder, for people; fedseg reads config.json.\n"
HOW_TO_RESUME = "the same command with --resume continues"


@contextmanager
def lock_work_dir(work_dir: str | Path) -> Iterator[None]:
    """Keep every other process out of a work dir, and links from leading writers out of it.

    The operating system drops the lock of a process that dies.

    Raises:
        ConfigError: another process writes there.
        DataError: a link is where a run writes.
    """
    work_dir = Path(work_dir)
    make_folder(work_dir)
    for name in OUTPUTS:
        own_path(work_dir, name)
    lock = FileLock(work_dir / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"work_dir: {work_dir} is in use by another process: wait for it, stop it, or name "
            "another folder"
        ) from None
    try:
        remove_temporaries(work_dir)
        yield
    finally:
        lock.release()


# ---------------------------------------------------------------- a run begins


def unfinished(work_dir: str | Path) -> bool:
    """True if a work dir holds a run that has a checkpoint and no results."""
    work_dir = Path(work_dir)
    return bool(checkpoints(work_dir / CHECKPOINTS)) and not (work_dir / RESULTS).exists()


def check_free(cfg: Config) -> None:
    """Raise ConfigError if the work dir holds a run that is neither continued nor overwritten."""
    root = Path(cfg.work_dir)
    resume, overwrite = cfg.get("resume", False), cfg.get("overwrite", False)
    if resume and overwrite:
        raise ConfigError("overwrite: contradicts resume: give one of the two")
    saved = bool(checkpoints(root / CHECKPOINTS))
    finished = (root / RESULTS).exists()
    if overwrite or not (saved or finished):
        return
    if not resume:
        raise ConfigError(
            f"work_dir: {root} holds a run: continue it with --resume, delete it with --overwrite, "
            "or give another --work-dir"
        )
    if not saved:
        raise ConfigError(
            f"--resume: {root} has {RESULTS}, but no checkpoint to continue from: delete the run "
            "with --overwrite, or give another --work-dir"
        )


def start_anew(cfg: Config) -> None:
    """Delete the run in the work dir if it is overwritten, and rounds that no checkpoint has.

    Raises:
        DataError: ``history.jsonl`` is not the history of a run.
    """
    root = Path(cfg.work_dir)
    if cfg.get("overwrite", False):
        for name in OUTPUTS:
            _delete(root / name)
        for path in root.glob("*.py"):
            if _is_copy(path):
                path.unlink()
        cfg["overwrite"] = False
    history = root / HISTORY
    if history.is_file():
        read_history(history)
        history.unlink()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_config(cfg: Config, name: str) -> None:
    """Write the config into the work dir: as data, and for people under the run's own name.

    A file of that name that no run has written, such as the config of a resumed run, stays.
    """
    config = cfg.to_dict() | {"experiment_name": name}
    left_out = ("work_dir", "resume", "overwrite", "executor")  # of this call: the next has others
    recorded = {key: value for key, value in config.items() if key not in left_out}
    root = Path(cfg.work_dir)
    write_text(root / CONFIG_FILE, config_json(recorded))
    note_own_parts(root, config)
    copy = root / f"{name}.py"
    if not copy.exists() or _is_copy(copy):
        # it is complete: there is nothing to compose
        plain = {key: value for key, value in config.items() if key not in ("setting", "methods")}
        write_text(copy, COPY_NOTE + config_text(plain))


def _is_copy(path: Path) -> bool:
    """True for a config that :func:`write_config` wrote for people."""
    return path.is_file() and path.read_bytes().startswith(COPY_NOTE.encode())


# ---------------------------------------------------------------- a run ends


@contextmanager
def explain_how_to_resume(cfg: Config) -> Iterator[None]:
    """Add to an error that ends a run what of it is saved, and how to go on."""
    try:
        yield
    except TrainingError as error:  # going on as before would end in the same way
        existing = checkpoints(Path(cfg.work_dir) / CHECKPOINTS)
        advice = "There is no checkpoint yet"
        if existing:
            _, newest = existing[-1]
            advice = (
                f"The newest checkpoint is {newest}: --resume continues from it, or from the "
                "one before if you delete it"
            )
        raise TrainingError(f"{error}. {advice}") from error
    except Exception as error:
        reason = ResourceError(system_message(error)) if is_system_error(error) else error
        if not isinstance(reason, Interrupted | LoadingError | ResourceError):
            raise
        existing = checkpoints(Path(cfg.work_dir) / CHECKPOINTS)
        saved = "no round finished, nothing saved: rerun the command"
        if existing and not cfg.get("overwrite", False):  # else they are still an earlier run's
            round_, _ = existing[-1]
            saved = f"rounds 1 to {round_} are saved: {HOW_TO_RESUME}"
        raise type(reason)(f"{reason}; {saved}") from error
