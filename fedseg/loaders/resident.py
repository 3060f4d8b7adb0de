"""Training batches of small images that live on the device: no loader, no workers, no copies.

All images of the data set are one uint8 tensor on the model's device. A batch is a gather and a few
tensor operations (:mod:`fedseg.datasets.batch_transforms`); nothing is done image by image.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.core.client_data import Job
from fedseg.datasets.arrays import ImageArrays
from fedseg.datasets.batch_transforms import BatchPipeline
from fedseg.errors import ConfigError
from fedseg.loaders.partitioned import PartitionedData
from fedseg.registry import CLIENT_DATA

Draws = list[dict[str, np.ndarray]]  # of each step of the augmentation, by name
TOGETHER = 1 << 21  # bytes of images that are transformed together; more would leave the cache


@CLIENT_DATA.register_module()
class ResidentData(PartitionedData):
    """Clients' batches from images in the device's memory.

    The draws of a local epoch's augmentation come from generators keyed by (seed, step of the
    augmentation, round, client, epoch), so batches are a pure function of seed and job. The batches
    of clients with few images are made by one call of the transforms for several clients, which
    takes a third of the time of a call for each (tools/benchmarks, small_clients).

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
        self.images = torch.from_numpy(self.dataset.images).to(self.device)
        self.labels = torch.from_numpy(self.dataset.labels).to(self.device)
        image_bytes = dtype.itemsize * math.prod(self.pipeline.shape)
        self._most_together = TOGETHER // image_bytes if self.pipeline.by_image else 0  # images
        self._coming: Iterator[Job] = iter(())
        self._next: Job | None = None  # of the stream
        self._made: dict[Job, list[dict[str, Tensor]]] = {}  # batches of jobs after this one

    def draws(self, job: Job, epoch: int, sizes: Sequence[int]) -> Draws:
        """The draws of the augmentation in one local epoch: for each step, arrays by name."""
        return self.pipeline.draw(sizes, self.seed, "augment batch", job.round, job.client, epoch)

    def start(self, jobs: Iterable[Job]) -> None:
        self._coming = iter(jobs)
        self._next = next(self._coming, None)
        self._made = {}

    def batches(self, job: Job) -> Iterator[dict[str, Tensor]]:
        if job not in self._made:
            jobs = self._take_jobs(job)
            self._made = self._make_together(jobs) if len(jobs) > 1 else {}
        return iter(self._made.pop(job, None) or self.batches_alone(job))

    def batches_alone(self, job: Job) -> Iterator[dict[str, Tensor]]:
        for epoch, order, sizes in self.epochs(job):
            yield from self._batches(order, sizes, self.draws(job, epoch, sizes))

    def _take_jobs(self, job: Job) -> list[Job]:
        """Take a job off the stream, and those after it as long as all their images are few."""
        jobs = [job]
        if job != self._next:
            return jobs
        images = self._count_images(job)
        self._next = next(self._coming, None)
        while self._next is not None:
            images += self._count_images(self._next)
            if images > self._most_together:
                break
            jobs.append(self._next)
            self._next = next(self._coming, None)
        return jobs

    def _count_images(self, job: Job) -> int:
        """Count the images of a job's local epochs, all of the last one too."""
        if job.full:
            return self.sizes[job.client]
        steps = job.steps or self.num_steps(job.client)
        epochs = math.ceil(steps / len(self.batch_sizes(job.client)))
        return epochs * self.sizes[job.client]

    def _make_together(self, jobs: Sequence[Job]) -> dict[Job, list[dict[str, Tensor]]]:
        """Make the batches of several jobs by one call of each transform: the same bits.

        A batch is copied out of the result, because a matrix product rounds otherwise where its
        operand does not begin at a multiple of 64 bytes.
        """
        owners: list[Job] = []
        sizes: list[int] = []
        orders: list[np.ndarray] = []
        draws: list[Draws] = []
        for job in jobs:
            for epoch, order, epoch_sizes in self.epochs(job):
                owners += [job] * len(epoch_sizes)
                sizes += epoch_sizes
                orders.append(order[: sum(epoch_sizes)])
                draws.append(self.draws(job, epoch, epoch_sizes))
        joined = [_concatenate(steps) for steps in zip(*draws, strict=True)]
        whole = next(self._batches(np.concatenate(orders), [sum(sizes)], joined))
        images = whole["inputs"].split(sizes)
        labels = whole["data_samples"].split(sizes)
        batches: dict[Job, list[dict[str, Tensor]]] = {job: [] for job in jobs}
        for job, inputs, data_samples in zip(owners, images, labels, strict=True):
            batch = {"inputs": inputs.clone(), "data_samples": data_samples.clone()}
            batches[job].append(batch)
        return batches

    def _batches(
        self, order: np.ndarray, sizes: Sequence[int], draws: Draws
    ) -> Iterator[dict[str, Tensor]]:
        """Make consecutive batches of these sizes.

        Args:
            order: indices of the samples.
            draws: of the augmentation, a row for each sample.
        """
        indices = torch.from_numpy(order).to(self.device, non_blocking=True)
        tensors = [_to_device(step, self.device) for step in draws]
        start = 0
        for size in sizes:
            rows = slice(start, start + size)
            images = self.images.index_select(0, indices[rows])
            labels = self.labels.index_select(0, indices[rows])
            batch_draws = [_rows(step, rows) for step in tensors]
            yield self.pipeline.apply(images, labels, batch_draws)
            start += size

    def sample_batches(self, batches: list[list[int]]) -> Iterator[dict[str, Tensor]]:
        order = np.concatenate([np.asarray(batch, dtype=np.int64) for batch in batches])
        sizes = [len(batch) for batch in batches]
        yield from self._batches(order, sizes, self.pipeline.draw(sizes, 0, "statistics"))


def _concatenate(steps: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the draws of a step for several epochs."""
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}


def _to_device(step: Mapping[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    """Copy a step's draws to a device."""
    return {name: torch.from_numpy(a).to(device, non_blocking=True) for name, a in step.items()}


def _rows(step: Mapping[str, Tensor], rows: slice) -> dict[str, Tensor]:
    """Cut a batch's rows out of a step's draws."""
    return {name: values[rows] for name, values in step.items()}


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
