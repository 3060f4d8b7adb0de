"""Training batches of the clients, streamed: one DataLoader for the whole run.

The order of everything is known in advance, so one loader with persistent workers streams the
batches of client after client and round after round, and its workers are already on the next client
while one trains.
"""

import functools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pickle import PicklingError
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch.utils.data import DataLoader, Dataset, default_collate

from fedseg.core.client_data import Job, JobStream
from fedseg.core.seeds import seed_for
from fedseg.errors import (
    DEBUG,
    ConfigError,
    DataError,
    LoaderKilled,
    LoadingError,
    UserError,
    is_lost_loader,
    lost_loader_message,
)
from fedseg.loaders.partitioned import PartitionedData
from fedseg.loaders.workers import init_worker
from fedseg.registry import CLIENT_DATA, FUNCTIONS

TIMEOUT = 600.0  # seconds in which a batch must come, unless the config says another number


def seed_global(seed: int) -> None:
    """Seed Python's, NumPy's and torch's CPU generator, for code that draws from them."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 - for code that is not ours
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes milliseconds per sample


@contextmanager
def temporary_seed(seed: int) -> Iterator[None]:
    """Within it the global generators are seeded; afterwards they go on where they were."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        seed_global(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


class SeededDataset(Dataset):
    """Any data set, asked by ``(index, seed)``, which makes whole batches.

    Torch's fetcher calls ``__getitems__`` with a batch's keys where a data set has it, and gives
    what it returns to the loader's ``collate_fn``. Here it returns the batch, and not a list of
    samples, as an error in it can then name its samples; :func:`_pass_on` is the ``collate_fn``.

    A data set that says ``seeded = True`` takes that key itself. For any other, Python's, NumPy's
    and torch's global generators are seeded for the sample, and put back afterwards, so that its
    transforms are reproducible too whatever process they run in. So are they for a batching
    function of the user's own.

    Args:
        dataset: the data set.
        collate: makes a batch of samples.
        name: sample index -> what messages call it.
    """

    def __init__(
        self,
        dataset: Dataset,
        collate: Callable = default_collate,
        name: Callable[[int], str] = "sample {}".format,
    ) -> None:
        self.dataset = dataset
        self.collate = collate
        self.name = name
        self.seeded = getattr(dataset, "seeded", False)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int]) -> Any:
        index, seed = key
        if self.seeded:
            return self.dataset[index, seed]
        with temporary_seed(seed):
            return self.dataset[index]

    def __getitems__(self, keys: list[tuple[int, int]]) -> Any:
        """Make the batch of these samples; LoadingError says which sample fails, and why."""
        samples = []
        for index, seed in keys:
            try:
                samples.append(self[index, seed])
            except Exception as error:
                raise LoadingError(f"{self.name(index)}: {_reason(error)}") from error
        first, seed = keys[0]
        try:
            return self._batch(samples, seed)
        except Exception as error:
            raise LoadingError(f"{self.name(first)}: its batch: {_reason(error)}") from error

    def _batch(self, samples: list[Any], seed: int) -> Any:
        """Make a batch; the seed is for a batching function that draws, as mixup does.

        Raises:
            DataError: the samples differ in size, or are of a type that torch does not batch.
        """
        if self.collate is not default_collate:
            with temporary_seed(seed_for(seed, "collate")):
                return self.collate(samples)
        try:
            return default_collate(samples)
        except RuntimeError as error:
            shapes = [_shapes(sample) for sample in samples]
            other = next((shape for shape in shapes if shape != shapes[0]), None)
            if other is None:
                raise
            raise DataError(
                f"its samples differ in size ({shapes[0]} and {other}): end dataset.pipeline with "
                "a crop or resize to one size, or set batch_size=1"
            ) from error
        except TypeError as error:
            raise DataError(
                f"a sample must consist of tensors, arrays or numbers ({error}): return "
                "dict(inputs=image, data_samples=labels), or set collate_fn="
                "dict(type='pseudo_collate') for a model that takes lists of samples"
            ) from error


def _shapes(sample: Any) -> list[tuple[int, ...]]:
    """List the shapes of a sample's tensors: of those in a dict or tuple, or of the sample."""
    if isinstance(sample, Mapping):
        parts = list(sample.values())
    elif isinstance(sample, list | tuple):
        parts = list(sample)
    else:
        parts = [sample]
    return [tuple(part.shape) for part in parts if hasattr(part, "shape")]


def _reason(error: Exception) -> str:
    """Say why a sample or batch cannot be made; a fault of a program keeps its type."""
    if isinstance(error, UserError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error} ({DEBUG}=1 shows where)"


def _pass_on(batch: Any) -> Any:
    return batch  # the data set has made it, where it is known which samples there are


def sample_name(field: str, dataset: Dataset, clients: Mapping[str, np.ndarray], index: int) -> str:
    """Name a sample for messages: its data set, its file if that has ``files``, and its client."""
    name = f"{field}: {type(dataset).__name__}, sample {index}"
    files = getattr(dataset, "files", None)
    if files is not None:
        name += f" ({files[index][0]})"
    for client, held in clients.items():
        if index in held:
            name += f" of client {client!r}"
    return name


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
            f"collate_fn: {config!r} is not a function of the registry FUNCTIONS: register your "
            "own there, in a module of custom_imports"
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
        timeout: seconds to wait for a batch of the workers; None: for ever.
        clients: client -> its samples, for messages.
    """

    def __init__(
        self,
        dataset: Dataset,
        field: str,
        num_workers: int,
        collate_fn: Mapping | None,
        prefetch_factor: int | None,
        timeout: float | None = TIMEOUT,
        clients: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.dataset = dataset
        self.field = field
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.timeout = timeout
        self.collate_fn = build_collate(collate_fn)
        self._name = functools.partial(sample_name, field, dataset, clients or {})

    def start(
        self, keys: Iterable[list[tuple[int, int]]], workers: int, pin_memory: bool = False
    ) -> Iterator[Any]:
        """Begin to make batches, each of the samples with these (index, seed) keys, in order."""
        loader = DataLoader(
            SeededDataset(self.dataset, self.collate_fn, self._name),
            batch_sampler=keys,
            num_workers=workers,
            collate_fn=_pass_on,
            pin_memory=pin_memory,
            timeout=(self.timeout or 0) if workers else 0,
            worker_init_fn=init_worker if workers else None,
            prefetch_factor=self.prefetch_factor if workers else None,
            generator=torch.Generator(),  # it draws a worker seed: not from the global one
        )
        if not workers:
            return iter(loader)
        return self._from_processes(self._start_processes(loader))

    def _start_processes(self, loader: DataLoader) -> Iterator[Any]:
        """Start the loader processes.

        Raises:
            ConfigError: the data set cannot be sent to them, where they are no forks.
            LoaderKilled: one of them died at once. Torch watches them when all have started.
        """
        others = multiprocessing.active_children()
        try:
            batches = iter(loader)
        except (AttributeError, TypeError, PicklingError) as error:
            if "pickle" not in str(error):
                raise
            raise ConfigError(
                f"{self.field}.dataset: {type(self.dataset).__name__} cannot be sent to loader "
                f"processes ({error}): replace lambdas and local functions by functions of a "
                f"module, or set {self.field}.num_workers=0"
            ) from error
        except RuntimeError as error:
            if not is_lost_loader(error):
                raise
            raise LoaderKilled(f"{self.field}: {lost_loader_message(error)}") from error
        started = [child for child in multiprocessing.active_children() if child not in others]
        if len(started) < loader.num_workers:
            raise LoaderKilled(f"{self.field}: a loader process was killed while it started")
        return batches

    def _from_processes(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches that loader processes make; an error of theirs is one sentence."""
        try:
            yield from batches
        except LoadingError as error:  # torch's text: the traceback of the process, then ours
            _, _, sentence = str(error).rpartition("LoadingError: ")
            raise LoadingError(sentence.strip()) from error
        except (OSError, EOFError) as error:  # a connection to a process broke
            with suppress(RuntimeError):  # torch raises for its death, too: here, not later
                time.sleep(1)
            raise LoaderKilled(f"{self.field}: {lost_loader_message(error)}") from error
        except RuntimeError as error:
            if "timed out" in str(error):
                raise LoadingError(
                    f"{self.field}.timeout: no batch came within {self.timeout:g} s: set more "
                    f"seconds, or find the sample that hangs with {self.field}.num_workers=0"
                ) from error
            raise LoaderKilled(f"{self.field}: {lost_loader_message(error)}") from error


@CLIENT_DATA.register_module()
class StreamingData(PartitionedData):
    """Clients' batches through one ``torch.utils.data.DataLoader``.

    Args:
        num_workers, collate_fn, prefetch_factor, timeout: see :class:`BatchLoader`.
        device: where the model is; batches for a GPU go through pinned memory.
        dtype: unused, the model's preprocessor follows its model.
        args, kwargs: see :class:`~fedseg.loaders.partitioned.PartitionedData`.
    """

    def __init__(
        self,
        *args: Any,
        num_workers: NonNegativeInt = 0,
        collate_fn: Mapping | None = None,
        prefetch_factor: PositiveInt | None = 4,
        timeout: PositiveFloat | None = TIMEOUT,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._loader = BatchLoader(
            self.dataset,
            "train_dataloader",
            num_workers,
            collate_fn,
            prefetch_factor,
            timeout,
            self.indices,
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
        # iterated twice: by the loader, which is ahead, and by what is asked for batches
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

    def batches_alone(self, job: Job) -> Iterator[Any]:
        return self._loader.start(self.batch_keys(job), workers=0)

    def sample_batches(self, batches: list[list[int]]) -> Iterator[Any]:
        keys = [[(i, seed_for(0, "statistics", i)) for i in map(int, batch)] for batch in batches]
        return self._loader.start(keys, workers=0)
