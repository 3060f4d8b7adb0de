"""A run's model with all of its data, and the weights of its checkpoints."""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.logging import MMLogger
from torch import Tensor

from fedseg.config.check import complete_config, drop_weights, prepare_as
from fedseg.config.compose import setting_file
from fedseg.config.layers import errors_name_their_source
from fedseg.core.flat import FlatModel
from fedseg.core.seeds import generator_for
from fedseg.curvature.surface import BATCH, RUNNING, Part, Point, Samples
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.sets import EvaluationSet, StreamedSet, build_evaluation_set
from fedseg.files import digest, own_path, sha256
from fedseg.loaders.partitioned import PartitionedData, balanced_batches
from fedseg.runner.build import build_trainer, load_weights
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints, load_checkpoint, run_folder
from fedseg.runner.experiment import load_config
from fedseg.runner.logs import quiet_console
from fedseg.runner.recorded import newest_checkpoint, recorded
from fedseg.runner.sampler import ClientSampler, build_sampler

TRAIN = "train"  # the domain of the clients' training images


@dataclass(frozen=True)
class Selection:
    """Which data a loss is the mean over.

    Attributes:
        domain: the training images (``train``), or a test domain.
        client: of the training images only those of this client; None: all.
        count: size of a seeded subset; None: all.
        batch_size: images at a time; None: as many as in the evaluation.
    """

    domain: str = TRAIN
    client: str | None = None
    count: int | None = None
    batch_size: int | None = None


class RunData:
    """A run's model and all of its data.

    Attributes:
        statistics: each client's personal parts in the last checkpoint loaded, by its name.
        hooks: types of the run's custom hooks, which are left out here.
        changed: overrides of the config, except those that say where data are.
    """

    def __init__(self, config: Config, trainer: ClientTrainer) -> None:
        self.config = config
        self.trainer = trainer
        self.local_state = trainer.local_state
        self.flat: FlatModel = trainer.flat
        self.data: PartitionedData = trainer.data
        self.seed: int = config.randomness.seed
        self.statistics: Mapping[str, Mapping[str, Tensor]] = {}
        self.hooks: list[Any] = []
        self.changed: list[str] = []
        self._images: dict[str, EvaluationSet] = {}

    def load(self, checkpoint: Path, global_model: bool = False) -> Point:
        """Load a checkpoint's average, or its global model if it has none or ``global_model``."""
        payload = load_weights(self.flat, str(checkpoint))
        average = payload.get("averaged_state_dict")
        if average is not None and not global_model:
            self.flat.load_state_dict(average)
        self.statistics = payload.get("client_statistics", {})
        return Point(str(checkpoint), self.flat.w.clone(), self.flat.buffers.clone())

    # ---------------------------------------------------------------- data

    def images(self, domain: str) -> EvaluationSet:
        """A test domain; for ``train`` the training images, prepared as test images are."""
        if domain not in self._images:
            config = self._training_images() if domain == TRAIN else self._test_images(domain)
            self._images[domain] = build_evaluation_set(
                domain, config, self.config.val_evaluator, "val", self.flat.w
            )
        return self._images[domain]

    def _tests(self) -> dict[str, dict[str, Any]]:
        """The configs of the test domains, without workers: each pass would start them anew."""
        tests = {}
        for domain, test in (self.config.get("val_dataloader") or {}).items():
            if test is None or test.get("held_out"):
                continue
            tests[domain] = {**test, "optional": False}
            if "num_workers" in test:
                tests[domain]["num_workers"] = 0
        return tests

    def _test_images(self, domain: str) -> dict[str, Any]:
        tests = self._tests()
        if domain not in tests:
            raise ConfigError(f"--data: {domain!r} is none of {', '.join((TRAIN, *tests))}")
        return tests[domain]

    def _training_images(self) -> dict[str, Any]:
        train = self.config.train_dataloader["dataset"]
        for test in self._tests().values():
            if test["dataset"]["type"] == train["type"]:
                return prepare_as(test, train)
        raise ConfigError(
            "val_dataloader: no test set has the training images' type, so it is not known how to "
            "prepare them without augmentation: add one"
        )

    def samples(self, selection: Selection) -> Samples:
        """The selected data, seen by one model."""
        chosen = self._choose(selection, self.data.clients)
        plan = balanced_batches(np.unique(chosen), self._batch_size(selection, len(chosen)))
        return self._load(selection, [Part(plan)])

    def personal_samples(self, selection: Selection) -> Samples:
        """Training images, each client's seen with its own personal parts (SiloBN's statistics).

        Clients that have never trained are left out; DataError if none has.
        """
        clients = [client for client in self.data.clients if client in self.statistics]
        chosen = self._choose(selection, clients)
        size = self._batch_size(selection, len(chosen))
        parts = []
        for client in clients:
            plan = balanced_batches(np.intersect1d(self.data.indices[client], chosen), size)
            states = [(1, self.statistics[client])]
            if plan:
                parts.append(Part(plan, partial(self.local_state.personal_model, states=states)))
        return self._load(selection, parts)

    def global_samples(self, selection: Selection) -> Samples:
        """The selected data as the global model, or the average, is evaluated on them."""
        if self.local_state is not None and selection.domain == TRAIN:
            return self.personal_samples(selection)
        return self.samples(selection)

    def global_statistics(self, domain: str) -> str:
        """What BatchNorm normalizes by in the global model; no client has statistics for a test."""
        return BATCH if self.local_state is not None and domain != TRAIN else RUNNING

    def in_small_batches(self, selection: Selection) -> Selection:
        """The selection with one image at a time if they come from disk, where they are large.

        A Hessian product keeps the graph of all images in a batch. A batch size that is set stays.
        """
        streamed = isinstance(self.images(selection.domain), StreamedSet)
        if selection.batch_size is None and streamed:
            return replace(selection, batch_size=1)
        return selection

    def _choose(self, selection: Selection, clients: Sequence[str]) -> np.ndarray:
        """Indices of the selected samples, of the training images only those of these clients."""
        if selection.domain != TRAIN:
            everything = np.arange(len(self.images(selection.domain).dataset))
        elif selection.client is not None and selection.client not in self.data.indices:
            raise ConfigError(f"--client: the run has no client {selection.client!r}")
        else:
            names = [name for name in clients if selection.client in (name, None)]
            if not names:
                raise DataError(f"{TRAIN}: the checkpoint has no client's personal parts")
            everything = np.concatenate([self.data.indices[name] for name in names])
        if selection.count is None or selection.count >= len(everything):
            return everything
        rng = generator_for(self.seed, "curvature samples")
        return rng.choice(everything, selection.count, replace=False)

    def _batch_size(self, selection: Selection, count: int) -> int:
        size = selection.batch_size or self.images(selection.domain).batch_size
        return min(size, count)

    def _load(self, selection: Selection, parts: list[Part]) -> Samples:
        test = self.images(selection.domain)
        load = partial(test.batches, pin_memory=self.flat.w.is_cuda)
        return Samples(selection.domain, parts, load, test)

    def checksum(self, domain: str) -> str | None:
        """SHA-256 of the data: clients and their samples, or a test set's images if it has any.

        Images on disk count by name, and by the sizes of all files.
        """
        if domain == TRAIN:
            dataset = self.data.dataset
            known = self.data.checksum()
        else:
            dataset = self.images(domain).dataset
            known = getattr(dataset, "split_checksum", None)
        files = getattr(dataset, "files", None)
        if files is None:
            return known
        return digest([known, [[_file_size(path) for path in pair] for pair in files]])

    # ---------------------------------------------------------------- clients, checkpoints

    @cached_property
    def sampler(self) -> ClientSampler:
        """Who takes part in which round."""
        return build_sampler(self.config.client_sampler, self.data.clients, self.seed)

    def first_clients(self, count: int | None) -> list[str]:
        """So many clients (None: all) in the order of their first participation.

        Where clients have personal parts, only those that have trained.
        """
        positions: dict[int, None] = {}  # in the order of insertion
        for round_ in range(1, self.config.train_cfg.max_rounds + 1):
            positions |= dict.fromkeys(self.sampler.participants(round_))
        if count is None:
            positions |= dict.fromkeys(range(len(self.data.clients)))
        names = [self.data.clients[position] for position in positions]
        if self.local_state is not None:
            names = [name for name in names if name in self.statistics]
        return names[:count]

    def identity(self, checkpoint: Path) -> dict[str, Any]:
        """The checkpoint and the environment that computes with it, for files of results."""
        payload = load_checkpoint(checkpoint)
        meta = payload.get("meta") or {}
        return {
            "checkpoint": checkpoint.name,
            "checkpoint_sha256": sha256(checkpoint),
            "round": payload.get("round"),
            "seed": meta.get("seed"),
            "config_sha256": meta.get("config_sha256"),
            "parameters": self.flat.num_parameters,
            "dtype": str(self.flat.w.dtype).removeprefix("torch."),
        }


def _file_size(path: str) -> int | None:
    return os.path.getsize(path) if os.path.exists(path) else None


def find_checkpoint(place: Path, round_: int | None = None) -> Path:
    """The file of a checkpoint: of a run the newest one, or that of a round.

    Raises:
        ConfigError: ``place`` is a checkpoint, and a round is wanted.
        DataError: the run has no such checkpoint.
    """
    if place.is_file():
        if round_ is not None:
            raise ConfigError(f"--round: {place} is a checkpoint: name its run")
        return place
    if round_ is None:
        return newest_checkpoint(place)[1]
    by_round = dict(checkpoints(own_path(place, CHECKPOINTS)))
    if round_ not in by_round:
        known = ", ".join(map(str, by_round)) or "no round"
        raise DataError(f"--round: {place} has no checkpoint of round {round_}, only of {known}")
    return by_round[round_]


@contextmanager
def open_run(
    checkpoint: Path,
    config_file: str | None = None,
    options: Sequence[str] = (),
    trusted: Sequence[str] = (),
) -> Iterator[RunData]:
    """Build the model and the data of the run that a checkpoint is of.

    Args:
        checkpoint: its file.
        config_file: a config of the user's own, which is executed; None: the recorded one, which is
            read as data.
        options: overrides of the config, ``KEY=VALUE``.
        trusted: modules that a recorded config may use.

    Raises:
        UserError: as of :func:`fedseg.runner.recorded.recorded`.
    """
    folder = run_folder(checkpoint)
    if config_file is None:
        reading = recorded(folder, folder, options, trusted, True)
    else:
        whole = load_config(Path(config_file), (), folder, options)
        reading = nullcontext((copy.deepcopy(whole), whole))
    quiet_console(MMLogger.get_current_instance(), "WARNING")
    with reading as (config, whole), errors_name_their_source(config):
        config["load_from"] = None
        config["custom_hooks"] = None
        config = complete_config(config)
        drop_weights(config.model)
        run = RunData(config, build_trainer(config))
        hooks = [hook.get("type") for hook in whole.get("custom_hooks") or ()]
        run.hooks = [name for name in hooks if name != "CurvatureHook"]
        run.changed = [option for option in options if not option.startswith("data_root=")]
        if config_file is not None:
            run.changed.append(f"--config {sha256(setting_file(config_file))}")
        yield run
