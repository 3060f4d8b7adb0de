"""Sound inputs of every kind, and the command lines that read them.

A template is a folder of inputs, made once; a case damages a copy of it and runs a command there.
All paths are relative to it.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import image_files
import prepare_tools
import torch
import toyseg
from command_line import run
from mmengine.config import Config

from fedseg.config.compose import compose
from fedseg.config.layers import CONFIGS
from fedseg.data_prep.cifar import CIFAR10
from fedseg.data_prep.cifar_files import VERIFIED
from fedseg.datasets.arrays import write_images
from tests.conftest import CONFIG, NETWORK, street, write_streets
from tests.data_prep.test_released_splits import Released

QUIET = {"progress": None, "pictures": None}


def digits(**changes: Any) -> dict[str, Any]:
    """The suite's MNIST with SCAFFOLD, SAM and SWA, made small; ``changes`` over it."""
    config = compose(CONFIGS / "settings" / "mnist_a01.py", ["scaffold", "fedsam", "swa"]).to_dict()
    small = {
        "data_root": "data",
        "train_dataloader": {"batch_size": 8, "partition": {"num_clients": 3, "alpha": 100.0}},
        "client_sampler": {"clients_per_round": 2},
        "averaging": {"start": 2, "cycle": 1},
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.9}],
        "train_cfg": {"max_rounds": 4, "local_epochs": 1, "val_interval": 2, "val_last_rounds": 2},
        "default_hooks": {"checkpoint": {"interval": 1, "keep_last": 3}, **QUIET},
        "log_level": "WARNING",
    }
    for key in ("setting", "methods", "experiment_name", "test_dataloader", "test_evaluator"):
        del config[key]
    return toyseg.merge(toyseg.merge(config, small), changes)


# ---------------------------------------------------------------- templates


def _digits(folder: Path) -> None:
    images = image_files.image_set(10, train=3, test=1, shape=(28, 28, 1))
    write_images(folder / "data", "MNIST", [str(i) for i in range(10)], *images.values())
    clients = {str(i): list(range(i, 30, 3)) for i in range(3)}
    (folder / "clients.json").write_text(json.dumps(clients))
    fixed = {"_delete_": True, "type": "FixedPartition", "file": "clients.json"}
    toyseg.write_config(folder / "config.py", digits())
    toyseg.write_config(folder / "load.py", digits(load_from=LAST))
    toyseg.write_config(folder / "fixed.py", digits(train_dataloader={"partition": fixed}))


def _finished(folder: Path) -> None:
    _digits(folder)
    for name, seed in (("run", 0), ("other", 1)):
        said = run("train.py", "config.py", "--work-dir", name, "--seed", seed, cwd=folder)
        assert said.returncode == 0, said.stderr


def _stopped(folder: Path) -> None:
    """A run that was killed in its third round."""
    _digits(folder)
    hook = {"type": "KillHook", "at": "aggregate", "round_": 3, "marker": "killed"}
    imports = {"imports": ["toyseg"], "allow_failed_imports": False}
    changes = {"custom_hooks": [hook], "custom_imports": imports}
    toyseg.write_config(folder / "config.py", digits(**changes))
    run("train.py", "config.py", "--work-dir", "run", cwd=folder)
    assert (folder / "killed").exists()


def _streets(folder: Path) -> None:
    """Photographs and label maps on disk with FedDrive's split files."""
    write_streets(folder / "data")
    (folder / "small_network.py").write_text(NETWORK)
    (folder / "config.py").write_text(CONFIG.format(root="data"))


def _own(folder: Path) -> None:
    """Six photographs and label maps of one's own, and the names of their three classes."""
    for name in ("images", "labels"):
        (folder / "root" / name).mkdir(parents=True)
    for number in range(6):
        image, ids = street(number)
        ending = ".jpg" if number % 2 else ".png"
        assert cv2.imwrite(str(folder / f"root/images/photo{number}{ending}"), image)
        assert cv2.imwrite(str(folder / f"root/labels/photo{number}.png"), ids % 3)
    (folder / "root/classes.txt").write_text("road,128,64,128\nsky,70,130,180\ntree,60,130,40\n")


def _archives(folder: Path) -> None:
    """CIFAR in .npz files."""
    images = image_files.image_set(10, train=3, test=1)
    image_files.write_npz(folder / "npz", images, CIFAR10.classes)


def _released(folder: Path) -> None:
    """Split files that were released for images prepared from the archive."""
    released = Released(folder, "cifar10")
    released.write()
    parts = released.images.values()
    write_images(folder / "root", "CIFAR10", CIFAR10.classes, *parts, source=VERIFIED)


TEMPLATES: dict[str, Callable[[Path], Any]] = {
    "digits": _digits,
    "finished": _finished,
    "stopped": _stopped,
    "streets": _streets,
    "own": _own,
    "archives": _archives,
    "released": _released,
}


def config_of(path: Path) -> dict[str, Any]:
    """A config as plain values, tuples as lists."""
    config = Config.fromfile(path, import_custom_modules=False)
    return json.loads(json.dumps(config.to_dict()))


# ---------------------------------------------------------------- what a command makes


def trained(folder: Path, _out: str) -> Any:
    """What a run carries on and its history; None if there is none."""
    found = sorted((folder / "run" / "checkpoints").glob("round_*.pth"))
    if not found:
        return None
    payload = torch.load(found[-1], map_location="cpu", weights_only=True)
    kept = {key: payload.get(key) for key in ("round", *toyseg.CARRIED)}
    return kept, _history(folder)


def _history(folder: Path) -> list[dict[str, Any]]:
    lines = toyseg.history({"work_dir": str(folder / "run")})
    return [{**line, "seconds": None} for line in lines]


def loaded(folder: Path, out: str) -> Any:
    """As :func:`trained`, of a run that began with another one's weights."""
    return trained(folder / "new", out)


def tested(folder: Path, _out: str) -> Any:
    return json.loads((folder / "out" / "test_results.json").read_text())["domains"]


def prepared(folder: Path, _out: str) -> Any:
    return prepare_tools.snapshot(folder / "root")


def written(folder: Path, out: str) -> Any:
    """The board or comparison that was written, and what was printed."""
    return [file.read_text() for file in sorted((folder / "out").glob("*.[mc][ds]*"))], out


def verified(folder: Path, _out: str) -> Any:
    """What verify has declared sound: results and history; how long things took apart."""
    with suppress(ValueError, OSError):
        results = json.loads((folder / "run" / "results.json").read_text("utf-8-sig"))
        return _given({**results, "seconds": None}), _history(folder)
    return None


def _given(value: Any) -> Any:
    """Without what is null, which is the same as what is missing."""
    if isinstance(value, dict):
        return {k: _given(inner) for k, inner in value.items() if inner is not None}
    return value


def printed(_folder: Path, out: str) -> Any:
    return out


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
        template: of its inputs. line: a file of tools/, or fedseg, with arguments.
        outcome: what it makes, from the folder and standard output.
        strict: another outcome is never right, whatever was said about it: a resumed run.
    """

    template: str
    line: str
    outcome: Callable[[Path, str], Any]
    strict: bool = False


LAST = "run/checkpoints/round_000004.pth"
SHORT = "--cfg-options train_cfg.max_rounds=1 default_hooks.pictures=None"
RELEASED = "prepare_cifar.py --root root --from files"
OWN = (
    "fedseg prepare segmentation root --images images/{name}.{ending} --labels labels/{name}.png "
    "--classes root/classes.txt --clients 2"
)
COMMANDS = {
    "train": Command("digits", "train.py config.py --work-dir run", trained),
    "train with a split file": Command("digits", "train.py fixed.py --work-dir run", trained),
    "train on streets": Command("streets", f"train.py config.py --work-dir run {SHORT}", trained),
    "show splits": Command("digits", "fedseg splits fixed.py --out splits.png", printed),
    "load": Command("finished", "train.py load.py --work-dir new/run", loaded),
    "test": Command("finished", f"test.py config.py {LAST} --out out --pictures 0", tested),
    "verify": Command("finished", "leaderboard.py verify run", verified),
    "board": Command("finished", "leaderboard.py run other --out out", written),
    "compare": Command("finished", "fedseg compare other run --out out", written),
    "resume": Command("stopped", "train.py config.py --work-dir run --resume", trained, True),
    "prepare own": Command("own", OWN, prepared),
    "prepare npz": Command("archives", "prepare_cifar.py --root root --npz npz", prepared),
    "prepare released": Command("released", RELEASED, prepared),
}
