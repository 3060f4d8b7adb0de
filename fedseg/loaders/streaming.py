"""Training batches of the clients, streamed: one DataLoader for the whole run.

The order of everything is known in advance, so one loader with persistent workers streams the
batches of client after client and round after round, and its workers are already on the next client
while one trains.
"""

import functools
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from fedseg.core.client_data import Job, JobStream
from fedseg.core.seeds import seed_for
from fedseg.datasets.images import read_size
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import (
    ConfigError,
    DataError,
    LoaderKilled,
    LoadingError,
    UserError,
    lacks_memory,
)
from fedseg.loaders.partitioned import PartitionedData
from fedseg.loaders.workers import IDLE, Places, WorkerError, init_worker, start_workers, watch
from fedseg.registry import CLIENT_DATA, FUNCTIONS

TIMEOUT = 600.0  # seconds in which a batch must come, unless the config says another number
PROBED = 8  # samples of a data set whose sizes only reading tells, and draws of one sample
SAME_SIZE = "end dataset.pipeline with a crop or resize to one size, or set batch_size=1"


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
    """Any data set, asked by ``(index, seed)``.

    A data set that says ``seeded = True`` takes that key itself. For any other, Python's, NumPy's
    and torch's global generators are seeded for the sample, and put back afterwards, so that its
    transforms are reproducible too whatever process they run in. So are they for a batching
    function of the user's own.
    """

    def __init__(
        self, dataset: Dataset, collate: Callable = default_collate, workers: int = 0
    ) -> None:
        self.dataset = dataset
        self.collate = collate
        self.places = Places(workers)
        self.seeded = getattr(dataset, "seeded", False)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int]) -> Any:
        index, seed = key
        self.places.enter(index)
        try:
            if self.seeded:
                return self.dataset[index, seed]
            with temporary_seed(seed):
                return self.dataset[index]
        finally:
            self.places.enter(IDLE)

    def __getitems__(self, keys: list[tuple[int, int]]) -> Any:
        what, foreign = "", not type(self.dataset).__module__.startswith("fedseg.")
        samples: list[Any] = []
        try:
            for index, seed in keys:
                samples.append(self[index, seed])
            index, what, foreign = keys[0][0], "its batch, which it begins: ", True
            if self.collate is default_collate:  # draws nothing
                return self.collate(samples)
            with temporary_seed(seed_for(keys[0][1], "collate")):
                return self.collate(samples)
        except Exception as error:
            if lacks_memory(error):
                raise
            cause: Exception = error
            if what and self.collate is default_collate and "equal size" in str(error):
                cause = ConfigError(f"samples differ in size: {SAME_SIZE}")
            elif what and self.collate is default_collate and isinstance(error, TypeError):
                cause = DataError(  # default_collate's own names neither option
                    f"a sample must consist of tensors, arrays or numbers ({error}): return "
                    "dict(inputs=image, data_samples=labels), or set collate_fn="
                    "dict(type='pseudo_collate') for a model that takes lists of samples"
                )
            return Failure.of(cause, index, what, foreign)


@dataclass(frozen=True)
class Failure:
    """Takes the place of a batch: the sample at which a data set failed, and why.

    Torch passes on an error of another process as text, this as it is.
    """

    index: int
    text: str
    details: str
    cause: Exception | None  # within this process

    @classmethod
    def of(cls, error: Exception, index: int, what: str, foreign: bool) -> "Failure":
        """The failure of an error.

        Args:
            what: failed besides the sample.
            foreign: whether it came out of a class of the user's own, whose traceback is kept.
        """
        text, details = f"{type(error).__name__}: {error}", ""
        if isinstance(error, UserError):
            text = str(error)
        elif foreign or not isinstance(error, OSError):
            details = "".join(traceback.format_exception(error))
        else:
            text = f"cannot be read: {error}"
        return cls(index, what + text, details, None if get_worker_info() else error)


def _pass_on(batch: Any) -> Any:
    return batch  # the data set has done it, where it is known which samples there are


def sample_name(dataset: Dataset, index: int) -> str:
    """The number of a sample, for messages, with its file if the data set has ``files``."""
    files = getattr(dataset, "files", None)
    try:
        return f"sample {index}" + (f" ({files[index][0]})" if files is not None else "")
    except (IndexError, KeyError, TypeError):
        return f"sample {index}"


def _spread(number: int, most: int) -> list[int]:
    """At most so many of the first whole numbers, evenly spaced, with the first and the last."""
    return np.linspace(0, number - 1, min(number, most)).astype(int).tolist()


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
            f"collate_fn: {config!r} is not a function of the registry FUNCTIONS: register "
            f"your own "
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
        timeout: seconds to wait for a batch of the workers; None: for ever.
        describe: sample index -> what messages call it; default :func:`sample_name`.
    """

    def __init__(
        self,
        dataset: Dataset,
        field: str,
        num_workers: int,
        collate_fn: Mapping | None,
        prefetch_factor: int | None,
        timeout: float | None = TIMEOUT,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        self.dataset, self.field = dataset, field
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.timeout = timeout
        self.collate_fn = build_collate(collate_fn)
        self._describe = describe or functools.partial(sample_name, dataset)

    def check_sizes(self, groups: Iterable[Sequence[int]]) -> None:
        """Raise ConfigError if batches of a group's samples hold several sizes.

        Sizes come from the files' headers; of a data set without a pipeline a few samples are read.
        """
        if self.collate_fn is not default_collate:
            return
        files, pipeline = (getattr(self.dataset, name, None) for name in ("files", "pipeline"))
        if not files or not isinstance(pipeline, Pipeline):
            groups = list(groups)
            for number in _spread(len(groups), PROBED // 2):
                self._check_samples(groups[number], PROBED // min(len(groups), PROBED // 2))
            return
        where = f"{self.field}.dataset.pipeline"

        def passed(size: tuple[int, int], seed: int = 0) -> tuple[tuple[int, ...], ...]:
            image, label = np.zeros((*size, 3), np.uint8), np.zeros(size, np.uint8)
            return tuple(one.shape for one in pipeline(image, label, seed)[: len(files[0])])

        try:  # a file that fails is told when it is read
            height, width = read_size(files[0][0])
            same = {passed((height, width), seed) for seed in range(3)}
            others = {passed((1, 1)), passed((height + 32, width + 64))}
            if len(same | others) == 1:
                return  # whatever their sizes
        except Exception:
            same = set()
        try:
            sizes = [read_size(paths[0]) for paths in files]
        except Exception:
            return
        made = {}
        for size, (path, *_) in zip(sizes, files, strict=True):
            try:
                made[size] = made.get(size) or passed(size)
            except ConfigError as error:  # a crop
                raise ConfigError(f"{self.field}.{error} (in {path})") from error
            except Exception:
                return
        for group in groups:
            examples = {made[sizes[i]]: i for i in group}
            if len(examples) > 1 or (len(same) > 1 and len(group) > 1):
                shown = [*examples.values()][:2]
                listed = ", ".join(f"{files[i][0]} {list(sizes[i])}" for i in shown)
                raise ConfigError(
                    f"{where}: leaves samples of several sizes in a batch ({listed}): {SAME_SIZE}"
                )

    def _check_samples(self, group: Sequence[int], most: int) -> None:
        dataset = SeededDataset(self.dataset)
        try:
            default_collate([dataset[int(group[i]), 0] for i in _spread(len(group), most)])
        except Exception as error:  # any other is told when batches are made
            if "equal size" in str(error):
                raise ConfigError(
                    f"{self.field}.dataset: samples differ in size ({error}): resize them to one "
                    "size, or set batch_size=1 or a collate_fn"
                ) from error

    def start(
        self, keys: Iterable[list[tuple[int, int]]], workers: int, pin_memory: bool = False
    ) -> Iterator[Any]:
        """Begin to make batches, each of the samples with these (index, seed) keys, in order."""
        dataset = SeededDataset(self.dataset, self.collate_fn, workers)
        loader = DataLoader(
            dataset,
            batch_sampler=keys,
            num_workers=workers,
            collate_fn=_pass_on,
            pin_memory=pin_memory,
            worker_init_fn=init_worker if workers else None,
            prefetch_factor=self.prefetch_factor if workers else None,
            generator=torch.Generator(),  # it draws a worker seed: not from the global one
        )
        if not workers:
            return self._explain_errors(iter(loader))
        try:
            started = start_workers(loader)
        except (AttributeError, TypeError, PicklingError) as error:  # under "spawn"
            if "pickle" not in str(error):
                raise
            raise ConfigError(
                f"{self.field}.dataset: {type(self.dataset).__name__} cannot be sent to loader "
                f"processes ({error}): replace lambdas and local functions by functions of a "
                f"module, or set {self.field}.num_workers=0"
            ) from error
        return self._explain_errors(watch(started, dataset.places, self.timeout))

    def _explain_errors(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Batches; an error says which sample, without torch's traceback inside its text."""
        try:
            for batch in batches:
                if isinstance(batch, Failure):
                    where = f"{type(self.dataset).__name__}, {self._describe(batch.index)}"
                    text = f"{self.field}: {where}: {batch.text}"
                    raise LoadingError(text, batch.details) from batch.cause
                yield batch
        except WorkerError as error:
            samples = [self._describe(index) for index in error.samples if index != IDLE]
            where = f" at {', '.join(samples)}" if samples else ""
            kind = LoaderKilled if error.killed else LoadingError
            raise kind(f"{self.field}: {error}{where}") from error


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
            self._describe,
        )
        if self.batch_size != 1:
            self._loader.check_sizes(self.indices.values())
        self._pin_memory = torch.device(device).type == "cuda"
        self._batches: Iterator | None = None
        self._expected: Iterator[Job] | None = None

    def _describe(self, index: int) -> str:
        client = next(client for client, held in self.indices.items() if index in held)
        return f"{sample_name(self.dataset, index)} of client {client!r}"

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

    def batches_alone(self, job: Job) -> Iterator[Any]:
        return self._loader.start(self.batch_keys(job), workers=0)

    def sample_batches(self, batches: list[list[int]]) -> Iterator[Any]:
        keys = [[(i, seed_for(0, "statistics", i)) for i in map(int, batch)] for batch in batches]
        return self._loader.start(keys, workers=0)
