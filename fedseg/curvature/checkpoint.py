"""A checkpoint with its model and all of its data, from a run's folder."""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from torch import Tensor

from fedseg.core.arithmetic import is_finite
from fedseg.core.flat import FlatModel
from fedseg.core.seeds import generator_for
from fedseg.curvature.surface import Part, Samples
from fedseg.engine.sampler import ClientSampler
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.files import sha256
from fedseg.hooks.batchnorm import BatchNormPolicy
from fedseg.loaders.partitioned import PartitionedData, balanced_batches
from fedseg.registry import HOOKS, SAMPLERS, build
from fedseg.runner.build import build_trainer
from fedseg.runner.checkpoint import checkpoints, load_checkpoint
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config, merge_options
from fedseg.runner.logs import quiet_console
from fedseg.runs.config_copy import find_config_copy

TRAIN = "train"  # the training data of all clients
OF_TEST = ("pipeline", "test_mode", "style")  # how a data set's samples are prepared


def find_checkpoint(path: Path) -> Path:
    """A checkpoint's file itself, or the newest one of a run's folder."""
    if path.is_file():
        return path
    found = checkpoints(path / "checkpoints")
    if not found:
        raise DataError(f"{path}: is neither a checkpoint nor a run's folder that holds one")
    return found[-1][1]


def run_folder(checkpoint: Path) -> Path:
    """The work dir that a checkpoint belongs to."""
    folder = checkpoint.parent
    return folder.parent if folder.name == "checkpoints" else folder


def run_config(folder: Path, given: Path | None, options: Sequence[str]) -> Config:
    """The config of a run: the copy in its folder, read as plain values, or the file given."""
    if given is not None:
        return load_config(given, work_dir=folder, options=options)
    found = find_config_copy(folder, folder.name)
    if found is None:
        raise DataError(f"{folder}: holds no config of its run; name one with --config")
    config = Config(dict(found))
    merge_options(config, options)
    return config


@dataclass(frozen=True)
class Point:
    """A model: parameters and float buffers, flat."""

    name: str
    w: Tensor
    buffers: Tensor


class RunData:
    """A run's model and all of its data.

    Args:
        config: of the run, complete.
        trainer: trains clients as the run does; has the model and the clients' data.
        policy: the BatchNorm policy, or None.

    Attributes:
        flat: the model. data: the clients' training data.
        statistics: client -> what the policy keeps with it.
    """

    def __init__(
        self, config: Config, trainer: ClientTrainer, policy: BatchNormPolicy | None
    ) -> None:
        self.config, self.trainer, self.policy = config, trainer, policy
        self.flat: FlatModel = trainer.flat
        self.data: PartitionedData = trainer.data
        self.seed: int = config.randomness.seed
        self.statistics: Mapping[str, Mapping[str, Tensor]] = {}

    # ---------------------------------------------------------------- data

    @cached_property
    def train_set(self) -> EvaluationSet:
        """The training images as the first test set of their kind is prepared: not augmented."""
        loader = self.config.train_dataloader
        for test in self._tests.values():
            if test["dataset"]["type"] == loader["dataset"]["type"]:
                break
        else:
            raise ConfigError(
                "val_dataloader: no set is of the training images' kind, which says how to prepare "
                "them without augmentation: use --augment"
            )
        dataset = {k: v for k, v in loader["dataset"].items() if k not in OF_TEST}
        dataset |= {k: v for k, v in test["dataset"].items() if k in OF_TEST}
        config = {**test, "dataset": dataset, "final_only": False, "optional": False}
        return self._build(TRAIN, config)

    @property
    def _tests(self) -> dict[str, Mapping[str, Any]]:
        found = self.config.get("val_dataloader") or {}
        return {name: test for name, test in found.items() if test is not None}

    def _build(self, name: str, config: Mapping[str, Any]) -> EvaluationSet:
        evaluator = self.config.val_evaluator
        return build_evaluation_set(name, config, evaluator, "val", self.flat.w)

    def test(self, name: str) -> EvaluationSet:
        """A test domain; ConfigError if the run has none of this name."""
        if name not in self._tests:
            known = ", ".join((TRAIN, *self._tests))
            raise ConfigError(f"--data: {name!r} is no data of the run, which has {known}")
        return self._build(name, {**self._tests[name], "optional": False})

    def samples(
        self,
        name: str = TRAIN,
        client: str | None = None,
        count: int | None = None,
        batch_size: int | None = None,
        augment: bool = False,
        personal: bool = True,
    ) -> Samples:
        """Data D.

        Clients' training images are seen with what each client keeps to itself (SiloBN's
        statistics), unless ``personal`` is off; those of clients that have never trained are left
        out then.

        Args:
            name: ``train`` or a test domain. client: only its training images.
            count: a seeded subset of at most so many.
            batch_size: images at a time; None: those of the evaluation.
            augment: the training images in their augmentation, drawn once.
        """
        test = self.train_set if name == TRAIN and not augment else None
        if name != TRAIN:
            test = self.test(name)
        clients = self.data.clients if client is None else [client]
        groups = {c: self.data.indices[c] for c in clients}
        if test is not None and name != TRAIN:
            groups = {"": np.arange(len(test.dataset))}
        elif personal and self.policy is not None:
            groups = {c: g for c, g in groups.items() if c in self.statistics}
            if not groups:
                raise DataError(f"{name}: the checkpoint has no client's BatchNorm statistics")
        chosen = np.concatenate(list(groups.values()))
        if count is not None and count < len(chosen):
            rng = generator_for(self.seed, "curvature samples")
            chosen = rng.choice(chosen, count, replace=False)
        keep = np.sort(chosen)
        if not personal or self.policy is None or name != TRAIN:
            groups = {"": keep}
        else:
            groups = {c: np.intersect1d(g, keep) for c, g in groups.items()}
        size = batch_size or (test.batch_size if test is not None else self._batch_size)
        parts = [
            Part(balanced_batches(group, size), self._personal(c))
            for c, group in groups.items()
            if len(group)
        ]
        if test is None:
            return Samples(name, parts, lambda p: zip(p, self.data.sample_batches(p), strict=True))
        pinned = self.flat.w.is_cuda
        return Samples(name, parts, lambda plan: test.batches(plan, pinned), test)

    @property
    def _batch_size(self) -> int:
        size = self.data.batch_size
        return max(self.data.sizes) if size == "full" else size

    def _personal(self, client: str) -> Any:
        if not client:
            return lambda w, buffers: (w, buffers)
        return lambda w, buffers: self.policy.personal(w, buffers, [(1, self.statistics[client])])

    def checksum(self, name: str) -> str | None:
        """SHA-256 of the data: clients and their samples, or a test set's images."""
        if name == TRAIN:
            return self.data.checksum()
        return getattr(self.test(name).dataset, "split_checksum", None)

    # ---------------------------------------------------------------- clients

    @cached_property
    def sampler(self) -> ClientSampler:
        """Who takes part in which round."""
        sampler = build(SAMPLERS, self.config.client_sampler, "client_sampler")
        sampler.bind(self.data.clients, self.seed)
        return sampler

    def first_clients(self, count: int | None) -> list[str]:
        """So many clients in the order of their first participation; None: all clients."""
        order: dict[int, None] = {}
        rounds = self.config.train_cfg.max_rounds
        wanted = math.inf if count is None else count
        for round_ in range(1, rounds + 1):
            if len(order) >= min(wanted, len(self.data.clients)):
                break
            order.update(dict.fromkeys(self.sampler.participants(round_)))
        if count is None:
            order.update(dict.fromkeys(range(len(self.data.clients))))
        return [self.data.clients[i] for i in order][:count]


class Opened(RunData):
    """A run from its config alone; the weights are those of a :class:`Point`.

    Args:
        config: of the run.
        double: compute in float64 whatever the run did.
    """

    def __init__(self, config: Config, double: bool = False) -> None:
        quiet_console(MMLogger.get_current_instance(), "WARNING")
        config = copy.deepcopy(config)
        config["load_from"] = None
        if double:
            config["dtype"] = "float64"
            config.train_cfg["amp"] = False
        config, policy = complete_config(config), None
        trainer = build_trainer(config)
        if config.get("batchnorm") is not None:
            policy = build(HOOKS, config.batchnorm, "batchnorm")
            policy.bind(trainer.flat)
        super().__init__(config, trainer, policy)

    def load(self, checkpoint: Path, averaged: bool = True) -> Point:
        """The model of a checkpoint: the averaged one if it has one and ``averaged``.

        Raises:
            DataError: it is missing, damaged, not finite, or of another model.
        """
        payload = load_checkpoint(checkpoint)
        state = payload.get("averaged_state_dict") if averaged else None
        state = payload["state_dict"] if state is None else state
        expected = {name: t.shape for name, t in self.flat.model.state_dict().items()}
        if {name: t.shape for name, t in state.items()} != expected:
            raise DataError(f"{checkpoint}: state_dict: is of another model than the run's config")
        self.flat.load_state_dict(state)
        point = Point(checkpoint.stem, self.flat.w.clone(), self.flat.buffers.clone())
        if not (is_finite(point.w) and is_finite(point.buffers)):
            raise DataError(f"{checkpoint}: state_dict: holds values that are not finite")
        self.statistics = payload.get("client_statistics", {})
        return point


def open_run(
    paths: Iterable[Path],
    config: Path | None = None,
    options: Sequence[str] = (),
    double: bool = False,
) -> tuple[Opened, list[Path]]:
    """The model and data of some checkpoints or runs of one network, and the checkpoints' files.

    Model and data are those of the first.
    """
    files = [find_checkpoint(path) for path in paths]
    return Opened(run_config(run_folder(files[0]), config, options), double), files


def identity(opened: Opened, checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint is, for files of results."""
    payload = load_checkpoint(checkpoint)
    meta = payload.get("meta") or {}
    return {
        "checkpoint": checkpoint.name,
        "checkpoint_sha256": sha256(checkpoint),
        "round": payload.get("round"),
        "seed": meta.get("seed"),
        "config_sha256": meta.get("config_sha256"),
        "parameters": opened.flat.num_parameters,
        "dtype": str(opened.flat.w.dtype).removeprefix("torch."),
        "device": str(opened.flat.w.device),
        "torch": torch.__version__,
    }
