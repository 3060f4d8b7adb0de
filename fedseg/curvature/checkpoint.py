"""A run's model with all of its data, and the weights of its checkpoints."""

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from torch import Tensor

from fedseg.config.check import complete_config, drop_weights, prepare_as
from fedseg.config.compose import setting_file
from fedseg.config.layers import naming
from fedseg.core.flat import FlatModel
from fedseg.core.seeds import generator_for
from fedseg.curvature.settings import GLOBAL, TRAIN, Source
from fedseg.curvature.surface import Part, Point, Samples
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.sets import EvaluationSet, StreamedSet, build_evaluation_set
from fedseg.files import digest, own_path, sha256
from fedseg.loaders.partitioned import PartitionedData, balanced_batches
from fedseg.loaders.streaming import StreamingData
from fedseg.registry import SAMPLERS, build
from fedseg.runner.build import build_trainer, load_weights
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints, load_checkpoint, run_folder
from fedseg.runner.experiment import load_config
from fedseg.runner.logs import quiet_console
from fedseg.runner.recorded import newest_checkpoint, recorded
from fedseg.runner.sampler import ClientSampler


class RunData:
    """A run's model and all of its data."""

    def __init__(self, config: Config, trainer: ClientTrainer) -> None:
        self.config, self.trainer = config, trainer
        self.local_state = trainer.local_state
        self.flat: FlatModel = trainer.flat
        self.data: PartitionedData = trainer.data
        self.seed: int = config.randomness.seed
        # each client's personal parts, by the client's name
        self.statistics: Mapping[str, Mapping[str, Tensor]] = {}
        self.hooks: list[Any] = []  # types of the run's custom hooks, which are left out here
        self.changed: list[str] = []  # overrides, except those that say where data are
        self._images: dict[str, EvaluationSet] = {}

    def load(self, checkpoint: Path, averaged: bool = True, beside_average: bool = False) -> Point:
        """The model of a checkpoint: the averaged one if it has one and ``averaged``."""
        payload = load_weights(self.flat, str(checkpoint))
        average = payload.get("averaged_state_dict")
        if beside_average and not averaged and average is None:
            raise ConfigError(f"{checkpoint}{GLOBAL}: has no average: leave {GLOBAL!r} out")
        if averaged and average is not None:
            self.flat.load_state_dict(average)
        self.statistics = payload.get("client_statistics", {})
        return Point(checkpoint.stem, self.flat.w.clone(), self.flat.buffers.clone())

    def images(self, name: str) -> EvaluationSet:
        """A test domain; for ``train`` the training images, prepared as test images are."""
        if name in self._images:
            return self._images[name]
        tests = {}
        for key, test in (self.config.get("val_dataloader") or {}).items():
            if test is not None and not test.get("held_out"):
                tests[key] = {**test, "optional": False}
                if "num_workers" in test:  # every product would start them anew
                    tests[key]["num_workers"] = 0
        if name == TRAIN:
            train = self.config.train_dataloader["dataset"]
            like = [test for test in tests.values() if test["dataset"]["type"] == train["type"]]
            if not like:
                raise ConfigError(
                    "val_dataloader: no test set has the training images' type, so it is not "
                    "known how to prepare them without augmentation: use --augment"
                )
            tests[TRAIN] = prepare_as(like[0], train)
        if name not in tests:
            raise ConfigError(f"--data: {name!r} is none of {', '.join((TRAIN, *tests))}")
        arguments = name, tests[name], self.config.val_evaluator, "val", self.flat.w
        return self._images.setdefault(name, build_evaluation_set(*arguments))

    def samples(
        self,
        name: str = TRAIN,
        client: str | None = None,
        count: int | None = None,
        batch_size: int | None = None,
        augment: bool = False,
        personal: bool = True,
        evaluated: bool = False,
    ) -> Samples:
        """Data D.

        Clients' training images are seen with each client's personal parts (SiloBN's statistics),
        unless ``personal`` is off; clients that have never trained are left out then.

        Args:
            name: ``train`` or a test domain. client: only its training images.
            count: a seeded subset of at most so many.
            batch_size: images at a time; None: as in the evaluation if ``evaluated`` or if they are
                in memory, else one: a Hessian product keeps the graph of all in a batch.
            augment: the training images in their augmentation, drawn once.
        """
        local_state = self.local_state if personal and name == TRAIN else None
        test = None if name == TRAIN and augment else self.images(name)
        if client is not None and client not in self.data.indices:
            raise ConfigError(f"--client: the run has no client {client!r}")
        clients = [client] if client else self.data.clients
        clients = [c for c in clients if local_state is None or c in self.statistics]
        if not clients:
            raise DataError(f"{name}: the checkpoint has no client's personal parts")
        held = [self.data.indices[c] for c in clients]
        chosen = np.concatenate(held) if name == TRAIN else np.arange(len(test.dataset))
        if count is not None and count < len(chosen):
            chosen = generator_for(self.seed, "curvature samples").choice(chosen, count, False)
        source = test or self.data
        streams = isinstance(source, StreamedSet | StreamingData)
        size = batch_size or (1 if streams and not evaluated else source.batch_size)
        size = len(chosen) if size == "full" else size
        parts = [Part(balanced_batches(np.unique(chosen), size))]
        if local_state is not None:
            plans = [balanced_batches(np.intersect1d(indices, chosen), size) for indices in held]
            states = [[(1, self.statistics[c])] for c in clients]
            pairs = zip(plans, states, strict=True)
            parts = [Part(p, partial(local_state.personal_model, states=s)) for p, s in pairs if p]
        if test is None:
            return Samples(name, parts, lambda p: zip(p, self.data.sample_batches(p), strict=True))
        return Samples(name, parts, partial(test.batches, pin_memory=self.flat.w.is_cuda), test)

    def checksum(self, name: str) -> str | None:
        """SHA-256 of the data: clients and their samples, or a test set's images if it has any.

        Images on disk count by name, and by the sizes of all files.
        """
        dataset = self.data.dataset if name == TRAIN else self.images(name).dataset
        known = self.data.checksum() if name == TRAIN else getattr(dataset, "split_checksum", None)
        if (files := getattr(dataset, "files", None)) is None:
            return known
        size = lambda path: os.path.getsize(path) if os.path.exists(path) else None  # noqa: E731
        return digest([known, [[*map(size, pair)] for pair in files]])

    @cached_property
    def sampler(self) -> ClientSampler:
        """Who takes part in which round."""
        sampler = build(SAMPLERS, self.config.client_sampler, "client_sampler")
        sampler.bind(self.data.clients, self.seed)
        return sampler

    def first_clients(self, count: int | None) -> list[str]:
        """So many clients (None: all) in the order of their first participation.

        Where clients have personal parts, only those that have trained.
        """
        rounds = range(1, self.config.train_cfg.max_rounds + 1)
        drawn = chain.from_iterable(map(self.sampler.participants, rounds))
        everyone = range(len(self.data.clients)) if count is None else ()
        names = [self.data.clients[i] for i in dict.fromkeys(chain(drawn, everyone))]
        return [c for c in names if self.local_state is None or c in self.statistics][:count]

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
            "device": str(self.flat.w.device),
            "torch": torch.__version__,
        }


def find_checkpoints(source: Source) -> list[Path]:
    """The checkpoints' files, of a run the newest or a round's; DataError if there is none."""
    files = []
    for place, _, client, round_ in source.models():
        if round_ is None:
            newest = place if place.is_file() else newest_checkpoint(place)[1]
            files.append(newest)
            continue
        by_round = dict(checkpoints(own_path(place, CHECKPOINTS)))
        if round_ not in by_round:
            known = ", ".join(map(str, by_round)) or "no round"
            raise DataError(
                f"{place}: has no checkpoint of round {round_}, only of {known}; if the client's "
                f"ID is {client}@{round_}, write {client}@{round_}@ for the newest"
            )
        files.append(by_round[round_])
    return files


@contextmanager
def opened(source: Source) -> Iterator[RunData]:
    """The model and its data; errors as of :func:`fedseg.runner.recorded.recorded`."""
    folder = run_folder(find_checkpoints(source)[0])
    if source.config is None:
        reading = recorded(folder, folder, source.options, source.trusted, True)
    else:
        whole = load_config(Path(source.config), (), folder, source.options)
        reading = nullcontext((copy.deepcopy(whole), whole))
    quiet_console(MMLogger.get_current_instance(), "WARNING")
    with reading as (config, whole), naming(config):
        config["load_from"], config["custom_hooks"] = None, None
        config = complete_config(config)
        drop_weights(config.model)
        trainer = build_trainer(config)
        run = RunData(config, trainer)
        hooks = (hook.get("type") for hook in whole.get("custom_hooks") or ())
        run.hooks = [name for name in hooks if name != "CurvatureHook"]
        run.changed = [o for o in source.options if not o.startswith("data_root=")]
        run.changed += [f"--config {sha256(setting_file(source.config))}"] if source.config else []
        yield run
