"""Training batches of the clients, streamed: one DataLoader for the whole run.

The order of everything is known in advance, so one loader with persistent workers streams the
batches of client after client and round after round, and its workers are already on the next client
while one trains.
"""

import functools
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from fedseg.checks import check_int
from fedseg.core.client_data import Job, JobStream
from fedseg.core.seeds import seed_for
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.loaders.partitioned import PartitionedData
from fedseg.registry import CLIENT_DATA, FUNCTIONS


def seed_global(seed: int) -> None:
    """Seed Python's, NumPy's and torch's CPU generator, for code that draws from them."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 - for code that is not ours
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes milliseconds per sample


class SeededDataset(Dataset):
    """Any data set, asked by ``(index, seed)``.

    A data set that says ``seeded = True`` takes that key itself. For any other, Python's, NumPy's
    and torch's global generators are seeded for the sample, and put back afterwards, so that its
    transforms are reproducible too whatever process they run in.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.seeded = getattr(dataset, "seeded", False)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int]) -> Any:
        try:
            return self._sample(*key)
        except OSError as error:
            name = type(self.dataset).__name__
            raise DataError(f"{name}, sample {key[0]}: cannot be read: {error}") from error

    def _sample(self, index: int, seed: int) -> Any:
        if self.seeded:
            return self.dataset[index, seed]
        before = random.getstate(), np.random.get_state()  # noqa: NPY002
        with torch.random.fork_rng(devices=[]):
            seed_global(seed)
            try:
                return self.dataset[index]
            finally:
                random.setstate(before[0])
                np.random.set_state(before[1])  # noqa: NPY002


def init_worker(_worker: int) -> None:
    """Set a loader process up.

    OpenCV's own threads would fight the workers for the cores. A Ctrl-C in a terminal reaches every
    process: the workers leave it to the main one, which still needs their batches to stop tidily.
    """
    cv2.setNumThreads(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def plain_errors(batches: Iterator) -> Iterator:
    """Batches; a user's error from a loader process loses torch's traceback inside its text."""
    try:
        yield from batches
    except UserError as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}: "
        head, _, message = str(error).rpartition(name)
        if "in DataLoader worker process" not in head:
            raise
        raise type(error)(message.strip()) from None


def build_collate(config: Mapping | None) -> Callable:
    """The function that makes a batch of samples; torch's ``default_collate`` unless configured."""
    if config is None:
        return default_collate
    if callable(config):
        return config
    options = dict(config) if isinstance(config, Mapping) else {}
    name = options.pop("type", None)
    function = FUNCTIONS.get(name) if isinstance(name, str) else name
    if not callable(function):
        raise ConfigError(
            f"collate_fn: {config!r} is no function of the registry FUNCTIONS: register your own "
            "there, in a module of custom_imports"
        )
    return functools.partial(function, **options) if options else function


class BatchLoader:
    """Makes batches of samples through a ``torch.utils.data.DataLoader``.

    Args:
        dataset: the data set; see :class:`SeededDataset`.
        field: where the options stand in the config, for messages.
        num_workers: loader processes; the batches do not depend on it.
        collate_fn: config of the batching function (registry ``FUNCTIONS``).
        prefetch_factor: batches each worker keeps ready; None: PyTorch's number.
    """

    def __init__(
        self,
        dataset: Dataset,
        field: str,
        num_workers: int,
        collate_fn: Mapping | None,
        prefetch_factor: int | None,
    ) -> None:
        check_int(f"{field}.num_workers", num_workers, least=0)
        if prefetch_factor is not None:
            check_int(f"{field}.prefetch_factor", prefetch_factor)
        self.dataset = SeededDataset(dataset)
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.collate_fn = build_collate(collate_fn)

    def start(
        self, keys: Iterable[list[tuple[int, int]]], workers: int, pin_memory: bool = False
    ) -> Iterator[Any]:
        """Begin to make batches, each of the samples with these (index, seed) keys, in order."""
        loader = DataLoader(
            self.dataset,
            batch_sampler=keys,
            num_workers=workers,
            collate_fn=self.collate_fn,
            pin_memory=pin_memory,
            worker_init_fn=init_worker if workers else None,
            prefetch_factor=self.prefetch_factor if workers else None,
            generator=torch.Generator(),  # it draws a worker seed: not from the global one
        )
        return plain_errors(iter(loader))


@CLIENT_DATA.register_module()
class StreamingData(PartitionedData):
    """Clients' batches through one ``torch.utils.data.DataLoader``.

    Args:
        num_workers, collate_fn, prefetch_factor: see :class:`BatchLoader`.
        device: where the model is; batches for a GPU go through pinned memory.
        dtype: unused, the model's preprocessor follows its model.
        dataset, partition, batch_size, local_epochs, local_steps, shuffle, drop_last, drop_single,
            seed: see :class:`~fedseg.loaders.partitioned.PartitionedData`.
    """

    def __init__(
        self,
        *args: Any,
        num_workers: int = 0,
        collate_fn: Mapping | None = None,
        prefetch_factor: int | None = 4,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.seconds_waiting = 0.0
        self._loader = BatchLoader(
            self.dataset, "train_dataloader", num_workers, collate_fn, prefetch_factor
        )
        self._pin_memory = torch.device(device).type == "cuda"
        self._batches: Iterator | None = None
        self._expected: Iterator[Job] | None = None

    def batch_keys(self, job: Job) -> Iterator[list[tuple[int, int]]]:
        """The (sample index, seed) keys of every batch: a pure function of seed and job."""
        for epoch, order, sizes in self.epochs(job):
            position = 0
            for size in sizes:
                yield [
                    (int(i), seed_for(self.seed, "augment", job.round, job.client, epoch, int(i)))
                    for i in order[position : position + size]
                ]
                position += size

    def start(self, jobs: Iterable[Job]) -> None:
        self.close()
        jobs = jobs if isinstance(jobs, JobStream) else list(jobs)
        self._expected = iter(jobs)
        keys = (keys for job in jobs for keys in self.batch_keys(job))
        self._batches = self._loader.start(keys, self._loader.num_workers, self._pin_memory)

    def batches(self, job: Job) -> Iterator[Any]:
        expected = next(self._expected)
        if expected != job:
            raise RuntimeError(f"the data stream is at {expected}, but {job} was asked for")
        count = len(self.full_sizes(job.client)) if job.full else self.num_steps(job.client)
        for _ in range(count):
            begin = time.perf_counter()
            batch = next(self._batches)
            self.seconds_waiting += time.perf_counter() - begin
            yield batch

    def close(self) -> None:
        self._batches = None
        self._expected = None

    def sample_batches(self, batches: list[list[int]]) -> Iterator[Any]:
        return self._loader.start([[(i, 0) for i in batch] for batch in batches], workers=0)
