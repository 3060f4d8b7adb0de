"""A data set divided among clients: how each client's samples are cut into batches, in which order.

How the batches of that plan are made is another matter, and there are two ways:
:mod:`fedseg.loaders.streaming` for images on disk, :mod:`fedseg.loaders.resident` for small images
that fit into memory.
"""

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch.utils.data import Dataset

from fedseg.core.client_data import ClientData, Job
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.partition.natural import divide
from fedseg.registry import DATASETS, build


def build_dataset(config: Dataset | Mapping, field: str) -> Any:
    """Build a data set whose files are there; DataError if one is missing."""
    dataset = build(DATASETS, config, field)
    if hasattr(dataset, "check_files"):
        dataset.check_files()
    return dataset


class PartitionedData(ClientData):
    """A data set divided among clients, and the plan of every local epoch.

    Args:
        dataset: a data set or its config.
        partition: maps the data set to ``{client id: sample indices}``, or its config; see
            :func:`fedseg.partition.divide`.
        batch_size: samples per step, or ``"full"`` for one step over all of a client's samples.
        local_epochs: passes over a client's samples in a round.
        local_steps: instead, a fixed number of steps per round (epochs repeat as needed).
        shuffle: a fresh order every local epoch; ``False`` keeps the partition's order, and
            ``"epoch"`` has the orders that torch's DistributedSampler draws for the local epochs,
            the same ones in every round (FedDrive's released code).
        drop_last: leave out a last, smaller batch.
        drop_single: leave out a last batch of one sample, as a run does for a model with BatchNorm,
            which would normalize that sample by itself.
        seed: the run's seed.

    Attributes:
        indices: client -> its training samples. held_out: client -> those for tests.
    """

    def __init__(
        self,
        dataset: Dataset | Mapping,
        partition: Mapping | Callable,
        batch_size: PositiveInt | Literal["full"],
        *,
        local_epochs: PositiveInt = 1,
        local_steps: PositiveInt | None = None,
        shuffle: bool | Literal["epoch"] = True,
        drop_last: bool = False,
        drop_single: bool = False,
        seed: int = 0,
    ) -> None:
        self.dataset = build_dataset(dataset, "train_dataloader.dataset")
        self.indices, self.held_out = divide(partition, self.dataset)
        self.clients = list(self.indices)
        self.sizes = [len(self.indices[client]) for client in self.clients]
        self.batch_size = batch_size
        self.local_epochs = local_epochs
        self.local_steps = local_steps
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.drop_single = drop_single
        self.seed = seed
        self._check_batches()

    def _check_batches(self) -> None:
        """Raise ConfigError for a client without a batch."""
        if self.batch_size == 1 and self.drop_single:
            raise ConfigError(
                "train_dataloader.batch_size: is 1, and a model with BatchNorm is not trained on "
                "batches of one: use at least 2, or a model without BatchNorm"
            )
        for number, (client, size) in enumerate(zip(self.clients, self.sizes, strict=True)):
            if not self.batch_sizes(number):
                problem = (
                    "and a model with BatchNorm is not trained on a batch of one: merge it with "
                    "another client, or use a model without BatchNorm"
                    if size == 1 and self.drop_single
                    else f"which is no full batch of {self.batch_size}: lower "
                    "train_dataloader.batch_size or set train_dataloader.drop_last=False"
                )
                raise ConfigError(f"client {client!r} has {size} sample(s), {problem}")

    def _sizes(self, client: int) -> list[int]:
        """Sizes of batches that hold every sample once."""
        size = self.sizes[client]
        batch = size if self.batch_size == "full" else min(self.batch_size, size)
        sizes = [batch] * (size // batch)
        if size % batch:
            sizes.append(size % batch)
        return sizes

    def batch_sizes(self, client: int) -> list[int]:
        """Sizes of the batches of one local epoch."""
        sizes = self._sizes(client)
        if self.drop_last and self.batch_size != "full" and sizes[-1] < self.batch_size:
            sizes.pop()
        if self.drop_single and sizes and sizes[-1] == 1:
            sizes.pop()
        return sizes

    def num_steps(self, client: int) -> int:
        if self.local_steps is not None:
            return self.local_steps
        return len(self.batch_sizes(client)) * self.local_epochs

    def full_sizes(self, client: int) -> list[int]:
        sizes = self._sizes(client)
        if self.drop_single and len(sizes) > 1 and sizes[-1] == 1:
            sizes[-2:] = [sizes[-2] + 1]  # every sample counts, and BatchNorm takes no single one
        return sizes

    def dropped(self) -> list[str]:
        """Clients that lose a last batch of one to BatchNorm in every epoch."""
        return [
            self.clients[i]
            for i, size in enumerate(self.sizes)
            if sum(self.batch_sizes(i)) == size - 1 and self.drop_single and not self.drop_last
        ]

    def epochs(self, job: Job) -> Iterator[tuple[int, np.ndarray, list[int]]]:
        """(epoch, sample indices in their order, batch sizes) of a job's local epochs.

        A pure function of seed and job. Every exchange of a round has the same batches, so that a
        second pass over the clients (as in NaiveFedGloSS) sees what the first one saw.
        """
        indices = self.indices[self.clients[job.client]]
        if job.full:
            yield 0, indices, self.full_sizes(job.client)
            return
        remaining = job.steps or self.num_steps(job.client)
        epoch = 0
        while remaining:
            order = indices
            if self.shuffle == "epoch":
                generator = torch.Generator().manual_seed(epoch)
                order = indices[torch.randperm(len(indices), generator=generator).numpy()]
            elif self.shuffle:
                rng = generator_for(self.seed, "shuffle", job.round, job.client, epoch)
                order = indices[rng.permutation(len(indices))]
            sizes = self.batch_sizes(job.client)[:remaining]
            yield epoch, order, sizes
            remaining -= len(sizes)
            epoch += 1

    def clients_by_domain(self) -> dict[str, list[str]]:
        """Domain -> the clients whose images are all of it; empty without domains."""
        domains = domains_of(self.dataset)
        clients: dict[str, list[str]] = {}
        if domains is None:
            return clients
        for client, indices in self.indices.items():
            client_domains = {domains[i] for i in indices}
            if len(client_domains) == 1:
                clients.setdefault(client_domains.pop(), []).append(client)
        return clients

    def batches_alone(self, job: Job) -> Iterator[Any]:
        """The batches of a job that is not in the stream."""
        return self.batches(job)

    @abstractmethod
    def sample_batches(self, batches: list[list[int]]) -> Iterator[Any]:
        """Batches of given samples in their training augmentation, with draws of their own."""

    def checksum(self) -> str:
        """SHA-256 over clients and their samples: by file names where the data set has them."""
        files = getattr(self.dataset, "files", None)
        digest = hashlib.sha256()
        if files is None and hasattr(self.dataset, "split_checksum"):
            digest.update(str(self.dataset.split_checksum).encode())
        parts = [*self.indices.items(), *((f"{c}\0holdout", i) for c, i in self.held_out.items())]
        for client, indices in parts:
            names = [str(i) for i in indices]
            if files is not None:
                root = str(getattr(self.dataset, "data_root", ""))
                names = [str(files[i][0]).removeprefix(root).lstrip("/\\") for i in indices]
            digest.update(json.dumps([client, names]).encode())
        return digest.hexdigest()


def domains_of(dataset: Any) -> list[Any] | None:
    """The domain of every sample, from an array too; None for a data set without domains.

    As plain values: NumPy's are no part of a checkpoint that can be read safely.
    """
    domains = getattr(dataset, "domains", None)
    if domains is None:
        return None
    if len(domains) != len(dataset):
        raise ConfigError(
            f"{type(dataset).__name__}.domains: has {len(domains)} entries for {len(dataset)} "
            "samples: give each sample its domain"
        )
    return [domain.item() if isinstance(domain, np.generic) else domain for domain in domains]


def balanced_batches(indices: np.ndarray, batch_size: int) -> list[list[int]]:
    """Cut indices into batches of nearly equal size, at most ``batch_size`` each.

    Test-time batch statistics depend on the size of a batch: equal sizes keep a last image from
    being judged alone (so does one batch of three where ``batch_size`` is 2), and none is dropped.
    """
    count = math.ceil(len(indices) / batch_size)
    if batch_size > 1:
        count = min(count, len(indices) // 2)
    parts = np.array_split(np.asarray(indices), max(1, count))
    return [part.tolist() for part in parts if len(part)]
