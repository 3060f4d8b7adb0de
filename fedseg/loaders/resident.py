"""Training batches of small images that live on the device: no loader, no workers, no copies.

All images of the data set are one uint8 tensor on the model's device. A batch is a gather and a few
tensor operations (:mod:`fedseg.datasets.batch_transforms`); nothing is done image by image.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.core.client_data import Job
from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import ImageArrays
from fedseg.datasets.batch_transforms import BatchPipeline
from fedseg.errors import ConfigError
from fedseg.loaders.partitioned import PartitionedData
from fedseg.registry import CLIENT_DATA

Draws = list[dict[str, np.ndarray]]
Epoch = tuple[np.ndarray, Sequence[int], Draws]
AHEAD = 1 << 21  # bytes of images that are transformed together; more would leave the cache
ALIGNMENT = 64  # bytes; where a batch begins elsewhere, matrix products round otherwise


@CLIENT_DATA.register_module()
class ResidentData(PartitionedData):
    """Clients' batches from images in the device's memory.

    The draws of a local epoch's augmentation come from generators keyed by (seed, step of the
    augmentation, round, client, epoch), so batches are a pure function of seed and job.

    Args:
        transforms: configs of batched transforms, in order.
        device: where the model is.
        dtype: floating point type of the model.
        args, kwargs: see :class:`~fedseg.loaders.partitioned.PartitionedData`; the data set is an
            :class:`~fedseg.datasets.arrays.ImageArrays`.
    """

    def __init__(
        self,
        *args: Any,
        transforms: Sequence[Any] = (),
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.pipeline = resident_pipeline(transforms, self.dataset, dtype, "train_dataloader")
        self.fits_model = self.pipeline.normalized
        self.device = torch.device(device)
        self.images = torch.from_numpy(np.array(self.dataset.images)).to(self.device)
        self.labels = torch.from_numpy(np.array(self.dataset.labels)).to(self.device)
        image = dtype.itemsize * math.prod(self.images.shape[1:])
        together = self.pipeline.by_image and image % ALIGNMENT == 0
        self._together = AHEAD // image if together else 0  # images transformed at once
        self._coming: Iterator[tuple[Job, dict[str, Tensor]]] = iter(())
        self._next: tuple[Job, dict[str, Tensor]] | None = None

    def draws(self, job: Job, epoch: int, sizes: Sequence[int]) -> Draws:
        """The draws of the augmentation in one local epoch: for each step, arrays by name."""
        counters = job.round, job.client, epoch
        return self.pipeline.draw(
            lambda step: generator_for(self.seed, "augment batch", step, *counters), sizes
        )

    def varies(self) -> bool:
        return any(self.pipeline.draw(np.random.default_rng, [1]))

    def start(self, jobs: Iterable[Job]) -> None:
        epochs = ((job, *epoch) for job in jobs for epoch in self._epochs(job))
        self._coming, self._next = self._made_together(epochs), None

    def batches(self, job: Job) -> Iterator[dict[str, Tensor]]:
        self._next = self._next or next(self._coming, None)
        if self._next is None or self._next[0] != job:  # not of the stream
            yield from self.batches_alone(job)
        while self._next is not None and self._next[0] == job:
            yield self._next[1]
            self._next = next(self._coming, None)

    def batches_alone(self, job: Job) -> Iterator[dict[str, Tensor]]:
        for epoch in self._epochs(job):
            yield from self._batches(*epoch)

    def _epochs(self, job: Job) -> Iterator[Epoch]:
        for epoch, order, sizes in self.epochs(job):
            yield order, sizes, self.draws(job, epoch, sizes)

    def _made_together(
        self, epochs: Iterable[tuple[Job, np.ndarray, Sequence[int], Draws]]
    ) -> Iterator[tuple[Job, dict[str, Tensor]]]:
        """The batches of jobs; the local epochs of clients with few images are made together."""
        for group in _groups(epochs, lambda epoch: sum(epoch[2]), self._together):
            jobs, orders, sizes, draws = zip(*group, strict=True)
            order = np.concatenate([o[: sum(s)] for o, s in zip(orders, sizes, strict=True)])
            joined = [
                {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
                for steps in zip(*draws, strict=True)
            ]
            owners = [job for job, s in zip(jobs, sizes, strict=True) for _ in s]
            made = self._batches(order, [size for s in sizes for size in s], joined)
            yield from zip(owners, made, strict=True)

    def _batches(
        self, order: np.ndarray, sizes: Sequence[int], draws: Draws
    ) -> Iterator[dict[str, Tensor]]:
        chosen = self._to_device(order)
        drawn = [{name: self._to_device(rows) for name, rows in step.items()} for step in draws]
        start = 0
        for group in _groups(sizes, int, self._together):
            rows = slice(start, start + sum(group))
            made = self.pipeline.apply(
                self.images.index_select(0, chosen[rows]),
                self.labels.index_select(0, chosen[rows]),
                [{name: values[rows] for name, values in step.items()} for step in drawn],
            )
            start += sum(group)
            parts = (torch.split(values, group) for values in made.values())
            yield from (dict(zip(made, batch, strict=True)) for batch in zip(*parts, strict=True))

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def sample_batches(self, batches: list[list[int]]) -> Iterator[dict[str, Tensor]]:
        order = np.concatenate([np.asarray(batch, dtype=np.int64) for batch in batches])
        sizes = [len(batch) for batch in batches]
        draws = self.pipeline.draw(lambda step: generator_for(0, "statistics", step), sizes)
        yield from self._batches(order, sizes, draws)


def _groups(items: Iterable[Any], size: Callable[[Any], int], most: int) -> Iterator[list[Any]]:
    """Consecutive items whose sizes sum to ``most`` or less, at least one at a time."""
    group: list[Any] = []
    for item in items:
        if group and sum(map(size, group)) + size(item) > most:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def resident_pipeline(
    transforms: Sequence[Any], dataset: Any, dtype: torch.dtype, loader: str
) -> BatchPipeline:
    """A loader's batched transforms for its data set; ConfigError unless that holds arrays."""
    if not isinstance(dataset, ImageArrays):
        raise ConfigError(
            f"{loader}.type: ResidentData keeps all images in memory and needs a data set of "
            f"arrays (ImageArrays), not {type(dataset).__name__}: leave type out to stream the "
            "images from disk"
        )
    shape, classes = dataset.images.shape[1:], len(dataset.classes)
    return BatchPipeline(transforms, shape, classes, dtype, f"{loader}.transforms")
