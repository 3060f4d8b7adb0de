"""The folder of a run: what it writes there, and what it finds of an earlier one."""

import shlex
import shutil
import sys
import time
import uuid
from pathlib import Path

from mmengine.config import Config

from fedseg import cli
from fedseg.runner.checkpoint import checkpoints
from fedseg.runs.config_copy import CONFIG_FILE

OUTPUTS = (
    CONFIG_FILE,
    "history.jsonl",
    "results.json",
    "checkpoints",
    "state",
    "pictures",
    "test",
    "tensorboard",
    "wandb",
    "mlflow",
    "vis_data",
)


def config_copy(cfg: Config) -> Path:
    """Where a run's config lies for people: under the run's name, which has an id in ``cfg``."""
    return Path(cfg.work_dir) / f"{cfg.experiment_name.rpartition('_')[0]}.py"


def set_aside_earlier_run(cfg: Config) -> Path | None:
    """Move what an earlier run left out of the way, so that nothing is overwritten.

    Returns:
        Where it was moved to, below the work dir; None if there was nothing.
    """
    root = Path(cfg.work_dir)
    leftovers = [p for p in (*(root / name for name in OUTPUTS), config_copy(cfg)) if p.exists()]
    if not leftovers:
        return None
    stamp = time.strftime("%Y%m%d_%H%M%S")
    aside = root / "previous" / f"{stamp}_{uuid.uuid4().hex[:4]}"
    aside.mkdir(parents=True)
    for path in leftovers:
        shutil.move(str(path), str(aside / path.name))
    return aside


def stop_message(cfg: Config, last_round: int) -> str:
    """What the user reads after Ctrl-C. last_round: the last finished one."""
    if last_round == 0:
        return "stopped before the first round was finished: nothing to save"
    command = resume_command(cfg)
    return f"stopped; rounds 1 to {last_round} are saved. Go on with: {command}"


def resume_command(cfg: Config) -> str:
    """The command that goes on with a run: this process's own with ``--resume``, if it trains."""
    arguments = [a for a in sys.argv if a != "--resume"]
    if Path(arguments[0]).name == "train.py":
        return shlex.join([cli.python(), *arguments, "--resume"])
    config = cfg.filename or "CONFIG"
    return f"python tools/train.py {config} --work-dir {cfg.work_dir} --resume"


def set_aside_later(cfg: Config, round_: int) -> Path | None:
    """Move checkpoints after a round, and copy the history, before the run goes back to it.

    Returns:
        Where they are, below the work dir; None if there was no such checkpoint.
    """
    root = Path(cfg.work_dir)
    later = [path for number, path in checkpoints(root / "checkpoints") if number > round_]
    if not later:
        return None
    aside = root / "previous" / f"after_round_{round_}_{uuid.uuid4().hex[:4]}"
    aside.mkdir(parents=True)
    if (root / "history.jsonl").is_file():
        shutil.copy2(root / "history.jsonl", aside)
    for path in later:
        shutil.move(str(path), str(aside / path.name))
    return aside
