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

import image_files
import prepare_tools
import torch
import toyseg
from command_line import run
from mmengine.config import Config

from fedseg.datasets.arrays import write_images
from tests.conftest import CONFIG, NETWORK, write_streets
from tests.data_prep.test_released_splits import Made

ROUNDS = 4


def digits(**changes: Any) -> dict[str, Any]:
    """A config of the suite's own components on 28x28 images; ``changes`` over it."""
    images = {"type": "MNISTDataset", "data_root": "data", "split": "train"}
    normalize = {"type": "Normalize", "mean": [0.5], "std": [0.5]}
    sgd = {"type": "SGD", "lr": 0.05, "momentum": 0.0, "weight_decay": 1e-4}
    base = {
        "default_scope": "fedseg",
        "model": {"type": "MNISTCNN", "num_classes": 10},
        "train_dataloader": {
            "type": "ResidentData",
            "batch_size": 8,
            "dataset": images,
            "partition": {"type": "DirichletPartition", "num_clients": 3, "alpha": 100.0},
            "transforms": [{"type": "RandomCrop", "padding": 2}, normalize],
        },
        "val_dataloader": {
            "test": {
                "type": "ResidentData",
                "batch_size": 10,
                "dataset": {**images, "split": "test"},
                "transforms": [normalize],
            }
        },
        "val_evaluator": {"type": "Accuracy"},
        "client_sampler": {"type": "UniformSampler", "clients_per_round": 2},
        "algorithm": {"type": "SCAFFOLD"},
        "optim_wrapper": {"type": "SAMOptimWrapper", "rho": 0.05, "optimizer": sgd},
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.9}],
        "averaging": {"type": "SWA", "start": 0.5, "cycle": 1},
        "train_cfg": {
            "type": "FederatedTrainLoop",
            "max_rounds": ROUNDS,
            "local_epochs": 1,
            "val_interval": 2,
            "val_last_rounds": 2,
            "val_last_interval": 1,
        },
        "default_hooks": {
            "checkpoint": {"type": "FederatedCheckpointHook", "interval": 1, "keep_last": 3},
            "progress": None,
            "pictures": None,
        },
        "randomness": {"seed": 0},
        "log_level": "WARNING",
    }
    return toyseg.merge(base, changes)


# ---------------------------------------------------------------- templates


def _digits(folder: Path) -> None:
    images = image_files.image_set(10, train=3, test=1, shape=(28, 28, 1))
    write_images(folder / "data", "MNIST", [str(i) for i in range(10)], *images.values())
    toyseg.write_config(folder / "config.py", digits())
    toyseg.write_config(folder / "load.py", digits(load_from="run/checkpoints/round_000004.pth"))
    fixed = {"_delete_": True, "type": "FixedPartition", "file": "clients.json"}
    (folder / "clients.json").write_text(
        json.dumps({str(i): list(range(i, 30, 3)) for i in range(3)})
    )
    loader = {"train_dataloader": {"partition": fixed}}
    toyseg.write_config(folder / "fixed.py", digits(**loader))


def _finished(folder: Path) -> None:
    """Two finished runs: ``run`` and ``other``, in folders of their own."""
    _digits(folder)
    for name, seed in (("run", 0), ("other", 1)):
        said = run("train.py", "config.py", "--work-dir", name, "--seed", seed, cwd=folder)
        assert said.returncode == 0, said.stderr


def _stopped(folder: Path) -> None:
    """A run that was killed in its third round."""
    _digits(folder)
    hook = {"type": "KillHook", "at": "aggregate", "round_": 3, "marker": "killed"}
    imports = {"imports": ["toyseg"], "allow_failed_imports": False}
    config = digits(custom_hooks=[hook], custom_imports=imports)
    toyseg.write_config(folder / "config.py", config)
    run("train.py", "config.py", "--work-dir", "run", cwd=folder)
    assert (folder / "killed").exists()


def _streets(folder: Path) -> None:
    """Photographs and label maps on disk with FedDrive's split files."""
    write_streets(folder / "data")
    (folder / "small_network.py").write_text(NETWORK)
    (folder / "config.py").write_text(CONFIG.format(root="data"))


def _archives(folder: Path) -> None:
    """CIFAR and MNIST in the forms that the prepare tools read."""
    from data_prep.cifar import KINDS

    kind = KINDS["cifar10"]
    images = image_files.image_set(10, train=3, test=1)
    image_files.write_archive(folder / "cifar.tar.gz", kind, images)
    image_files.write_npz(folder / "npz", images, kind.classes)
    image_files.write_folders(folder / "png", images, kind.classes)
    gray = image_files.image_set(10, train=3, test=1, shape=(28, 28, 1))
    image_files.write_mnist(folder / "mnist", gray)


def _released(folder: Path) -> None:
    """The archive, and split files as those of the ECCV 2022 paper."""
    Made(folder, "cifar10").write()


TEMPLATES: dict[str, Callable[[Path], None]] = {
    "digits": _digits,
    "finished": _finished,
    "stopped": _stopped,
    "streets": _streets,
    "archives": _archives,
    "released": _released,
}


# ---------------------------------------------------------------- commands and what they make


def trained(folder: Path, _out: str) -> Any:
    """What a run carries on and its history; None if there is none."""
    config = {"work_dir": str(folder / "run"), "train_cfg": {}}
    found = sorted((folder / "run" / "checkpoints").glob("round_*.pth"))
    if not found:
        return None
    payload = torch.load(found[-1], map_location="cpu", weights_only=True)
    kept = {key: payload.get(key) for key in ("round", *toyseg.CARRIED)}
    kept["hooks"] = {k: v for k, v in kept["hooks"].items() if not k.startswith("KillHook")}
    return kept, [{**line, "seconds": None} for line in toyseg.history(config)]


def loaded(folder: Path, out: str) -> Any:
    """As :func:`trained`, of a run that began with another one's weights."""
    return trained(folder / "new", out)


def tested(folder: Path, _out: str) -> Any:
    """The metrics of a test."""
    return json.loads((folder / "out" / "test_results.json").read_text())["domains"]


def prepared(folder: Path, _out: str) -> Any:
    """Every file below the prepared root."""
    return prepare_tools.snapshot(folder / "root")


def written(folder: Path, out: str) -> Any:
    """The board or comparison that was written, and what was printed; times apart."""
    files = sorted((folder / "out").glob("*.md")) + sorted((folder / "out").glob("*.csv"))
    return [file.read_text() for file in files], out


def verified(folder: Path, _out: str) -> Any:
    """What verify has declared sound: results and history; how long things took apart."""
    with suppress(ValueError, OSError):
        results = json.loads((folder / "run" / "results.json").read_text())
        config = {"work_dir": str(folder / "run")}
        lines = [{**line, "seconds": None} for line in toyseg.history(config)]
        return {**results, "seconds": None}, lines
    return None


def printed(_folder: Path, out: str) -> Any:
    """What was printed."""
    return out


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
        template: of its inputs. tool, arguments: as on a command line, in the folder.
        outcome: what it makes, from the folder and standard output.
        strict: another outcome is never right, whatever was said about it: a resumed run.
    """

    template: str
    tool: str
    arguments: tuple[str, ...]
    outcome: Callable[[Path, str], Any]
    strict: bool = False


NEW = ("--work-dir", "run")
ONE_ROUND = (
    *("--cfg-options", "train_cfg.max_rounds=1", "train_cfg.val_interval=1"),
    *("default_hooks.pictures=None", "default_hooks.progress=None"),
)
OUT = ("--out", "out")
LAST = f"run/checkpoints/round_{ROUNDS:06d}.pth"
OWN = ("--root", "root", "--unofficial", "--partition", "homogeneous", "--num-clients", "2")
COMMANDS = {
    "train": Command("digits", "train.py", ("config.py", *NEW), trained),
    "train with a split file": Command("digits", "train.py", ("fixed.py", *NEW), trained),
    "show splits": Command("digits", "splits.py", ("clients.json", *OUT), printed),
    "load": Command("finished", "train.py", ("load.py", "--work-dir", "new/run"), loaded),
    "test": Command("finished", "test.py", ("config.py", LAST, *OUT, "--pictures", "0"), tested),
    "verify": Command("finished", "leaderboard.py", ("verify", "run"), verified),
    "board": Command("finished", "leaderboard.py", ("run", "other", *OUT), written),
    "compare": Command("finished", "compare.py", ("other", "run", *OUT), written),
    "resume": Command("stopped", "train.py", ("config.py", *NEW, "--resume"), trained, True),
    "train on streets": Command("streets", "train.py", ("config.py", *NEW, *ONE_ROUND), trained),
    "prepare cifar": Command(
        "archives", "prepare_cifar.py", ("--source", "cifar.tar.gz", *OWN), prepared
    ),
    "prepare npz": Command("archives", "prepare_cifar.py", ("--source", "npz", *OWN), prepared),
    "prepare png": Command("archives", "prepare_cifar.py", ("--source", "png", *OWN), prepared),
    "prepare mnist": Command("archives", "prepare_mnist.py", ("--source", "mnist", *OWN), prepared),
    "prepare released": Command(
        "released",
        "prepare_cifar.py",
        ("--source", "a.tar.gz", "--root", "root", "--unofficial", "--from", "files"),
        prepared,
    ),
}


def config_of(folder: Path, name: str = "config.py") -> dict[str, Any]:
    """A template's config as plain values, tuples as lists."""
    config = Config.fromfile(folder / name, import_custom_modules=False)
    return json.loads(json.dumps(config.to_dict()))
