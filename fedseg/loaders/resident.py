"""Training batches of small images that live on the device: no loader, no workers, no copies.

All images of the data set are one uint8 tensor on the model's device. A batch is a gather and a few
tensor operations (:mod:`fedseg.datasets.batch_transforms`); nothing is done image by image.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
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

Draws = list[dict[str, np.ndarray]]
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
        image = dtype.itemsize * math.prod(self.pipeline.shape)
        together = self.pipeline.by_image and image % ALIGNMENT == 0
        self._together = AHEAD // image if together else 0  # images transformed at once
        self._coming: Iterator[tuple[Job, dict[str, Tensor]]] = iter(())
        self._next: tuple[Job, dict[str, Tensor]] | None = None

    def draws(self, job: Job, epoch: int, sizes: Sequence[int]) -> Draws:
        """The draws of the augmentation in one local epoch: for each step, arrays by name."""
        return self.pipeline.draw(sizes, self.seed, "augment batch", job.round, job.client, epoch)

    def start(self, jobs: Iterable[Job]) -> None:
        self._coming, self._next = self._made_together(jobs), None

    def batches(self, job: Job) -> Iterator[dict[str, Tensor]]:
        self._next = self._next or next(self._coming, None)
        if self._next is None or self._next[0] != job:  # not of the stream
            yield from self.batches_alone(job)
        while self._next is not None and self._next[0] == job:
            yield self._next[1]
            self._next = next(self._coming, None)

    def batches_alone(self, job: Job) -> Iterator[dict[str, Tensor]]:
        for _, batch in self._made_together([job]):
            yield batch

    def _made_together(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, dict[str, Tensor]]]:
        """The batches of jobs; local epochs of few images are transformed by one call for all."""
        epochs = ((job, *epoch) for job in jobs for epoch in self.epochs(job))
        following = next(epochs, None)
        while following is not None:
            owners, orders, sizes, draws = [], [], [], []
            while following is not None:
                job, epoch, order, own = following
                if owners and sum(sizes) + sum(own) > self._together:
                    break
                owners += [job] * len(own)
                orders.append(order[: sum(own)])
                sizes += own
                draws.append(self.draws(job, epoch, own))
                following = next(epochs, None)
            joined = [
                {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
                for steps in zip(*draws, strict=True)
            ]
            made = self._batches(np.concatenate(orders), sizes, joined)
            yield from zip(owners, made, strict=True)

    def _batches(
        self, order: np.ndarray, sizes: Sequence[int], draws: Draws
    ) -> Iterator[dict[str, Tensor]]:
        chosen, *drawn = (
            {n: torch.from_numpy(rows).to(self.device, non_blocking=True) for n, rows in of.items()}
            for of in ({"order": order}, *draws)
        )
        together = sum(sizes) <= self._together
        start = 0
        for size in [sum(sizes)] if together else sizes:
            rows = slice(start, start + size)
            made = self.pipeline.apply(
                self.images.index_select(0, chosen["order"][rows]),
                self.labels.index_select(0, chosen["order"][rows]),
                [{name: values[rows] for name, values in step.items()} for step in drawn],
            )
            start += size
            parts = (torch.split(values, sizes if together else size) for values in made.values())
            for batch in zip(*parts, strict=True):  # detached: a model may change it in place
                yield {name: values.detach() for name, values in zip(made, batch, strict=True)}

    def sample_batches(self, batches: list[list[int]]) -> Iterator[dict[str, Tensor]]:
        order = np.concatenate([np.asarray(batch, dtype=np.int64) for batch in batches])
        sizes = [len(batch) for batch in batches]
        yield from self._batches(order, sizes, self.pipeline.draw(sizes, 0, "statistics"))


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
