"""A segmentation problem of a few seconds for tests of the engine: data, networks, configs, runs.

Small colored patches with a label map, six clients in four domains, a network with BatchNorm over
maps (BatchNorm2d) and over vectors (BatchNorm1d). It lies outside the package, as a user's own
code does, and enters a run through ``custom_imports``.
"""

import copy
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command_line import CommandLine
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from fedseg.errors import LoadingError
from fedseg.files import sha256
from fedseg.hooks import FederatedHook
from fedseg.models import ImagePreprocessor
from fedseg.registry import DATASETS, HOOKS, METRICS, MODELS
from fedseg.runner.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from fedseg.runner.state_store import StateStore
from fedseg.runs.schema import OWN_DIGEST, own_digest

ROOT = Path(__file__).parents[2]
HEIGHT, WIDTH, CLASSES = 8, 12, 3
USERS = {"a": 5, "b": 4, "c": 7, "d": 6, "e": 3, "f": 8}  # client -> images
DOMAIN_OF = {"a": "north", "b": "north", "c": "south", "d": "south", "e": "east", "f": "west"}


# ---------------------------------------------------------------- data


def scene(number: int, domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Image [H, W, 3] uint8 and labels [H, W] uint8: stripes of three classes in domain colors."""
    rng = np.random.default_rng([number, sum(domain.encode())])
    labels = rng.integers(0, CLASSES, (HEIGHT // 4, WIDTH // 4)).repeat(4, 0).repeat(4, 1)
    colors = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]])
    tint = np.random.default_rng(sum(domain.encode())).integers(-35, 35, 3)
    image = colors[labels] + tint + rng.normal(0, 25, (HEIGHT, WIDTH, 3))
    labels = labels.astype(np.uint8)
    labels[0, : number % 3] = 255
    return image.clip(0, 255).astype(np.uint8), labels


class _Scenes(Dataset):
    """scale: how many times larger the scenes are."""

    def __init__(
        self, users: Mapping[str, int] | None = None, domains: Any = None, scale: int = 1
    ) -> None:
        users = dict(users or USERS)
        domains = domains or DOMAIN_OF
        self.users = [user for user, count in users.items() for _ in range(count)]
        self.domains = [domains.get(user, user) for user in self.users]
        self.metainfo = {"classes": ("x", "y", "z"), "palette": [[0, 0, 0]] * 3}
        items = [scene(i, d) for i, d in enumerate(self.domains)]
        self.items = [[x.repeat(scale, 0).repeat(scale, 1) for x in item] for item in items]

    def __len__(self) -> int:
        return len(self.items)


def sample(image: np.ndarray, labels: np.ndarray) -> dict[str, Tensor]:
    image = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
    return {"inputs": image, "data_samples": torch.from_numpy(labels.copy())}


@DATASETS.register_module()
class ToyScenes(_Scenes):
    """Takes ``(index, seed)``; flips, shifts and brightens with the seed unless ``test_mode``."""

    seeded = True

    def __init__(self, test_mode: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test_mode = test_mode

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Tensor]:
        index, seed = key if isinstance(key, tuple) else (key, 0)
        image, labels = self.items[index]
        if not self.test_mode:
            rng = np.random.default_rng(seed)
            if rng.random() < 0.5:
                image, labels = image[:, ::-1], labels[:, ::-1]
            shift = int(rng.integers(-3, 4))
            image, labels = np.roll(image, shift, axis=1), np.roll(labels, shift, axis=1)
            image = (image * rng.uniform(0.7, 1.3)).clip(0, 255).astype(np.uint8)
        return sample(image, labels)


@DATASETS.register_module()
class BrokenScenes(ToyScenes):
    """Who comes to a sample first leaves its id in a file and sends itself a signal; 0: hangs."""

    def __init__(self, at: int, what: int, marker: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at, self.what, self.marker = at, what, Path(marker)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Tensor]:
        if key[0] == self.at and not self.marker.exists():
            self.marker.write_text(str(os.getpid()))
            if not self.what:
                time.sleep(3600)
            os.kill(os.getpid(), self.what)
        return super().__getitem__(key)


@DATASETS.register_module()
class UnseededScenes(_Scenes):
    """Augments with the global generators of Python, NumPy and torch, as much outside code does."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image, labels = self.items[index]
        if random.random() < 0.5:
            image, labels = image[:, ::-1], labels[:, ::-1]
        shift = int(np.random.randint(-3, 4))  # noqa: NPY002 - that is the point
        image, labels = np.roll(image, shift, axis=1), np.roll(labels, shift, axis=1)
        factor = float(torch.rand(())) * 0.6 + 0.7
        return sample((image * factor).clip(0, 255).astype(np.uint8), labels)


# ---------------------------------------------------------------- networks and metric


@MODELS.register_module()
class ToySegNet(BaseModel):
    """Two convolutions with BatchNorm2d, gated by a global vector through BatchNorm1d.

    Args:
        norm: ``False`` leaves BatchNorm out. dropout: rate before the last layer.
    """

    def __init__(self, norm: bool = True, dropout: float = 0.0, data_preprocessor: Any = None):
        super().__init__(data_preprocessor or ImagePreprocessor())
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(6) if norm else nn.Identity()
        self.gate = nn.Linear(6, 6)
        self.renamed = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(6, CLASSES, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, data_samples: Tensor | None = None, mode: str = "tensor"):
        x = functional.relu(self.bn1(self.conv1(inputs)))
        x = x * torch.sigmoid(self.renamed(self.gate(x.mean((2, 3)))))[:, :, None, None]
        logits = self.conv2(self.dropout(x))
        if mode == "loss":
            return {"loss": functional.cross_entropy(logits, data_samples, ignore_index=255)}
        return logits.argmax(1) if mode == "predict" else logits


@MODELS.register_module()
class FrozenToySegNet(ToySegNet):
    """Keeps a BatchNorm layer in eval mode, as a fine-tuned backbone does."""

    def train(self, mode: bool = True) -> "FrozenToySegNet":
        super().train(mode)
        self.bn1.eval()
        return self


@METRICS.register_module()
class PixelAccuracy(BaseMetric):
    """Per cent of labeled pixels that are right; figure ``accuracy``."""

    default_prefix = None

    def process(self, data_batch: Any, data_samples: Any) -> None:
        labels = data_batch["data_samples"]
        valid = labels != 255
        right = ((labels == data_samples) & valid).sum()
        self.results.append((int(right), int(valid.sum())))

    def compute_metrics(self, results: list) -> dict[str, float]:
        right, total = (sum(column) for column in zip(*results, strict=True))
        return {"accuracy": 100 * right / total}


# ---------------------------------------------------------------- hooks that break a run


@HOOKS.register_module()
class KillHook(FederatedHook):
    """SIGKILL (or another signal) at a moment of a round; only once per marker file.

    Args:
        at: ``"client"`` (in its local steps), ``"aggregate"``, or ``"checkpoint"`` (after half of
            the checkpoint's bytes).
        round_: the round. marker: a file that is made before the signal, and disarms the hook.
    """

    priority = "HIGHEST"

    def __init__(self, at: str, round_: int, marker: str, number: int = signal.SIGKILL) -> None:
        self.at, self.kill_round, self.marker = at, round_, Path(marker)
        self.number = number

    def _kill(self) -> None:
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), self.number)

    def after_local_steps(self, runner: Any, client: Any) -> None:
        second = runner.client_sampler.participants(runner.round)[1]
        if self.at == "client" and runner.round == self.kill_round and client.index == second:
            self._kill()

    def after_aggregate(self, runner: Any, aggregate: Any) -> None:
        if self.at == "aggregate" and runner.round == self.kill_round:
            self._kill()

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        if self.at == "checkpoint" and runner.round == self.kill_round:
            self._sabotage()

    def _sabotage(self) -> None:
        from fedseg.runner import state_store as store

        if self.marker.exists():
            return
        whole = torch.save

        def save(payload: Any, file: Any) -> None:
            if "state_dict" not in payload:
                return whole(payload, file)
            import io

            content = io.BytesIO()
            whole(payload, content)
            file.write(content.getvalue()[: content.tell() // 2])
            file.flush()
            return self._kill()

        store.torch.save = save


@HOOKS.register_module()
class FailHook(FederatedHook):
    """Ends the run in a stage of a round: before_client, after_round or before_val."""

    def __init__(self, at: str, round_: int) -> None:
        self.at, self.fail_round = at, round_

    def _fail(self, at: str, runner: Any, error: Exception) -> None:
        if at == self.at and runner.round == self.fail_round:
            raise error

    def before_client(self, runner: Any, client: Any) -> None:
        self._fail("before_client", runner, RuntimeError("power cut"))

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self._fail("after_round", runner, LoadingError("x.png: cannot be read"))

    def before_val(self, runner: Any) -> None:
        self._fail("before_val", runner, LoadingError("x.png: cannot be read"))


@HOOKS.register_module()
class PoisonHook(FederatedHook):
    """Makes the updates of some clients not finite.

    Args:
        clients: their ids, or ``"all"``. round_: the only round, or None for every one.
        value: what is written into the update. vector: where, if it is sent.
        exchange: the only one of a round, or None for all.
    """

    def __init__(
        self,
        clients: Any,
        round_: int | None = None,
        value: float | str = "nan",
        vector: str = "delta",
        exchange: int | None = None,
    ):
        self.clients, self.when = clients, (round_, exchange)
        self.value, self.vector = float(value), vector

    def after_client(self, runner: Any, client: Any, update: Any) -> None:
        now = (runner.round, client.exchange)
        if any(only not in (None, one) for only, one in zip(self.when, now, strict=True)):
            return
        if self.vector in update.vectors and (self.clients == "all" or client.id in self.clients):
            update.vectors[self.vector][0] = self.value


# ---------------------------------------------------------------- configs and runs


# entries of ``personal``
SILOBN = ["@batchnorm.statistics"]
FEDBN = ["@batchnorm"]


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """A config: FedASAM + SWA + SiloBN on the toy, 6 rounds, three of six clients, seed 0.

    Args:
        folder: the run writes to ``folder / "run"``.
        changes: merged over it; a dict is merged key by key unless it has ``_delete_=True``.
    """
    scenes = {"type": "ToyScenes"}
    test = {"type": "ToyScenes", "test_mode": True}
    base = {
        "custom_imports": {"imports": ["toyseg"], "allow_failed_imports": False},
        "work_dir": str(folder / "run"),
        "model": {"type": "ToySegNet"},
        "train_dataloader": {
            "batch_size": 3,
            "num_workers": 0,
            "dataset": scenes,
            "partition": {"type": "NaturalPartition"},
        },
        "val_dataloader": {
            "unseen": {
                "batch_size": 4,
                "dataset": {**test, "users": {"u": 5}, "domains": {"u": "nowhere"}},
            },
            "seen": {"batch_size": 4, "dataset": test},
        },
        "val_evaluator": {"type": "PixelAccuracy"},
        "client_sampler": {"type": "UniformSampler", "clients_per_round": 3},
        "algorithm": {"type": "FedAvg"},
        "optim_wrapper": {
            "type": "ASAMOptimWrapper",
            "rho": 0.1,
            "eta": 0.2,
            "optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4},
        },
        "averaging": {"type": "SWA", "start": 0.5, "cycle": 1},
        "personal": SILOBN,
        "train_cfg": {
            "type": "FederatedTrainLoop",
            "max_rounds": 6,
            "local_epochs": 2,
            "val_interval": 3,
            "val_last_rounds": 2,
            "val_last_interval": 2,
        },
        "default_hooks": {
            "checkpoint": {"type": "FederatedCheckpointHook", "interval": 1},
            "progress": None,
            "pictures": None,
        },
        "visualizer": {"vis_backends": []},
        "randomness": {"seed": 0},
        "log_level": "ERROR",
    }
    return merge(base, changes)


# what turns the config above into plain FedAvg
PLAIN = {
    "averaging": None,
    "personal": None,
    "optim_wrapper": {
        "_delete_": True,
        "type": "OptimWrapper",
        "optimizer": {"type": "SGD", "lr": 0.1},
    },
}


def fixed(*rounds: str) -> dict[str, Any]:
    """The sampler of given participants, a string of client letters for every round."""
    return {"_delete_": True, "type": "FixedSampler", "participants": [list(r) for r in rounds]}


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` over it, dicts key by key."""
    merged = copy.deepcopy(dict(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            value = dict(value)
            if value.pop("_delete_", False):
                merged[key] = value
            else:
                merged[key] = merge(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def runner(config: Mapping[str, Any], resume: bool = False) -> Any:
    from fedseg.runner.runner import FederatedRunner

    return FederatedRunner.from_cfg(Config({**copy.deepcopy(dict(config)), "resume": resume}))


def train(config: Mapping[str, Any], resume: bool = False) -> Any:
    """Train in this process; the runner afterwards."""
    made = runner(config, resume)
    made.train()
    return made


def run(folder: Path, **changes: Any) -> dict[str, Any]:
    """Train with :func:`settings`; returns the config, from which the functions below read."""
    config = settings(folder, **changes)
    train(config)
    return config


def write_config(path: Path, config: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key} = {value!r}\n" for key, value in config.items()))
    return path


def start_cli(config: Path | str, *options: str) -> CommandLine:
    return CommandLine("train.py", config, *options)


def checkpoint(config: Mapping[str, Any], round_: int | None = None) -> dict[str, Any]:
    """The checkpoint of a round (default: of the last)."""
    round_ = round_ or config["train_cfg"]["max_rounds"]
    path = Path(config["work_dir"]) / "checkpoints" / f"round_{round_:06d}.pth"
    return torch.load(path, map_location="cpu", weights_only=True)


def client_states(config: Mapping[str, Any], round_: int | None = None) -> dict[str, Any]:
    """The stores' content that a checkpoint refers to: store -> key -> tensors."""
    states: dict[str, Any] = {}
    for name, index in checkpoint(config, round_)["stores"].items():
        store = StateStore(Path(config["work_dir"]) / "state" / f"{name}.sqlite")
        store.load_state_dict(index)
        states[name] = {key: store.get(key) for key in index}
    return states


def state_rows(config: Mapping[str, Any], name: str = "clients") -> set[tuple[int, str]]:
    """Round and key of every row of a store."""
    path = Path(config["work_dir"]) / "state" / f"{name}.sqlite"
    with closing(sqlite3.connect(path)) as database:
        return set(database.execute("SELECT round, key FROM states"))


def history(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = (Path(config["work_dir"]) / "history.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def results(config: Mapping[str, Any]) -> dict[str, Any]:
    """``results.json`` without what it took."""
    content = json.loads((Path(config["work_dir"]) / "results.json").read_text())
    return {**content, "seconds": None}


def logs(config: Mapping[str, Any]) -> str:
    """All log files."""
    return "".join(path.read_text() for path in Path(config["work_dir"]).rglob("*.log"))


def rewrite_history(config: Mapping[str, Any], records: list[dict[str, Any]]) -> None:
    """Give a finished run another history, for which its newest checkpoint vouches."""
    path = Path(config["work_dir"]) / "history.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    _, newest = checkpoints(path.parent / "checkpoints")[-1]
    mark = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    save_checkpoint(newest, {**load_checkpoint(newest), "history": mark})


def sign_results(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content | {OWN_DIGEST: own_digest(content)}))


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two nested values differ, tensors compared bit for bit."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        found = [f"{path}/{k}: only on one side" for k in a.keys() ^ b.keys()]
        for key in a.keys() & b.keys():
            found += differences(a[key], b[key], f"{path}/{key}")
        return found
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        same = same and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [f"{path}: tensors differ"]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [
            d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{i}")
        ]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} != {b!r}"]


def check_alike(*configs: Mapping[str, Any]) -> None:
    """Train all of these; they become the same run, bit for bit."""
    for config in configs:
        train(config)
        assert run_differences(configs[0], config) == []


def check_resumed(whole: Mapping[str, Any], cut: Mapping[str, Any]) -> None:
    """Resume a run; it becomes the same as one that was never stopped, bit for bit."""
    train(cut, resume=True)
    assert run_differences(whole, cut) == []


CARRIED = ("state_dict", "averaged_state_dict", "server", "hooks", "schedulers")


def run_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Where two runs differ in what they carry on, their client states and their history."""
    one, two = checkpoint(a), checkpoint(b)
    for side in (one, two):  # what breaks a run is no part of it
        side["hooks"] = {k: v for k, v in side["hooks"].items() if not k.startswith("KillHook")}
    found = []
    for key in CARRIED:
        assert (key in one) == (key in two)
        found += differences(one.get(key), two.get(key), key)
    found += differences(client_states(a), client_states(b), "stores")
    volatile = {"seconds": None, "restarts": None}
    lines = [[{**line, **volatile} for line in history(run)] for run in (a, b)]
    return found + differences(*lines, "history")
