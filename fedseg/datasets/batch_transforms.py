"""Augmentation of small images as tensor operations on whole batches.

Images are [B, H, W, C] here: uint8 as stored, floating point after :class:`Normalize`. A model gets
them as [B, C, H, W], which, without a copy, have channels_last strides.

Random numbers are drawn beforehand by ``draw(rng, sizes)``, for all samples of a client's local
epoch at once; the operation itself is a pure function of images, labels and draws.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional

from fedseg.config.arguments import PositiveShare, Share
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.registry import BATCH_TRANSFORMS, build

Batch = tuple[Tensor, Tensor]


class BatchTransform(ABC):
    """One step of the augmentation.

    Attributes:
        dtype: the floating point type of images; set by the pipeline.
        needs_floats: whether it must come after :class:`Normalize`.
        gives_floats: whether it makes floating point images.
        by_image: whether it changes each image by itself, so that it may get several batches at
            once, of several clients. Each class says so itself: it is not inherited.
    """

    dtype = torch.float32
    by_image = False
    needs_floats = False
    gives_floats = False

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        """Prepare for images of a shape and a number of classes; the shape of its results.

        Shapes are [H, W, C].
        """
        return tuple(shape)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        """Its random numbers, one row per sample, for consecutive batches of these sizes."""
        return {}

    @abstractmethod
    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        """(images, labels) of a batch, transformed.

        Args:
            images: [B, H, W, C]. labels: int64 [B], or probabilities [B, classes].
            draws: this batch's rows.
        """


@BATCH_TRANSFORMS.register_module()
class RandomCrop(BatchTransform):
    """Pad with zeros (black; after :class:`Normalize` the mean color), then crop at random.

    Args:
        padding: pixels on each side.
        size: height and width of the result; None: those of the image before padding.
        whole_batch: one place for all images of a batch, instead of one for each.
    """

    by_image = True

    def __init__(
        self,
        padding: NonNegativeInt = 4,
        size: PositiveInt | None = None,
        whole_batch: bool = False,
    ) -> None:
        self.padding = padding
        self.size = size
        self.whole_batch = whole_batch

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        height, width, channels = shape
        target = (height, width) if self.size is None else (self.size, self.size)
        padded = height + 2 * self.padding, width + 2 * self.padding
        self._room = padded[0] - target[0], padded[1] - target[1]
        self._target = target
        if min(self._room) < 0:
            raise ConfigError(
                f"transforms.RandomCrop.size: {self.size} is more than the padded images' "
                f"{min(padded)}: use a smaller size or more padding"
            )
        return (*target, channels)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        count = len(sizes) if self.whole_batch else sum(sizes)
        corner = rng.integers(0, np.asarray(self._room) + 1, (count, 2))
        if self.whole_batch:
            corner = corner.repeat(sizes, axis=0)
        return {"top": corner[:, 0], "left": corner[:, 1]}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        pad = self.padding
        padded = functional.pad(images, (0, 0, pad, pad, pad, pad)).contiguous()
        count, height, width, channels = padded.shape
        row = width * channels
        # every window of every image as a view: [B, tops, lefts, H, W * C]
        places, rows = (self._room[0] + 1, self._room[1] + 1), self._target[0]
        windows = padded.as_strided(
            (count, *places, rows, self._target[1] * channels),
            (height * row, row, channels, row, 1),
        )
        which = torch.arange(count, device=images.device)
        cut = windows[which, draws["top"], draws["left"]]
        return cut.view(count, *self._target, channels), labels


@BATCH_TRANSFORMS.register_module()
class RandomFlip(BatchTransform):
    """Flip left and right.

    Args:
        prob: probability of a flip.
        whole_batch: all images of a batch or none, instead of each for itself.
    """

    by_image = True

    def __init__(self, prob: Share = 0.5, whole_batch: bool = False) -> None:
        self.prob, self.whole_batch = prob, whole_batch

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        flip = rng.random(len(sizes) if self.whole_batch else sum(sizes)) < self.prob
        return {"flip": flip.repeat(sizes) if self.whole_batch else flip}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        flat, mirrored = images.flatten(1), images.flip(2).flatten(1)
        whole = flat.shape[1] % 8 == 0 and flat.storage_offset() % 8 == 0
        if flat.dtype == torch.uint8 and whole:  # eight values at a time: five times as fast
            flat, mirrored = flat.view(torch.int64), mirrored.view(torch.int64)
        chosen = torch.where(draws["flip"].view(-1, 1), mirrored, flat)
        return chosen.view(images.dtype).view(images.shape), labels


@BATCH_TRANSFORMS.register_module()
class Normalize(BatchTransform):
    """uint8 to floating point: ``(x / 255 - mean) / std`` for every channel.

    Args:
        mean, std: one number per channel, in units of 0..1.
    """

    by_image = True
    gives_floats = True

    def __init__(self, mean: Sequence[Share], std: Sequence[PositiveShare]) -> None:
        if len(mean) != len(std):
            raise ValueError(f"mean {mean} and std {std} differ in length")
        self.mean, self.std = tuple(mean), tuple(std)
        self._constants: dict[Any, tuple[Tensor, Tensor]] = {}

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        if shape[2] != len(self.mean):
            raise ConfigError(
                f"transforms.Normalize.mean: has {len(self.mean)} channels, the images have "
                f"{shape[2]}"
            )
        return tuple(shape)

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        count, height, width, channels = images.shape
        scale, shift = self._row(width, self.dtype, images.device)
        # a whole row of pixels as the innermost dimension: wide enough for vector instructions
        rows = images.reshape(count, height, width * channels).to(self.dtype)
        return torch.addcmul(shift, rows, scale).view(images.shape), labels

    def _row(self, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        key = width, dtype, device
        if key not in self._constants:
            mean, std = (torch.tensor(v, dtype=torch.float64) for v in (self.mean, self.std))
            self._constants[key] = tuple(
                v.repeat(width).to(device, dtype) for v in (1 / (255 * std), -mean / std)
            )
        return self._constants[key]


@BATCH_TRANSFORMS.register_module()
class Cutout(BatchTransform):
    """A square of zeros, which after :class:`Normalize` is the mean color.

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout",
    2017: the center is any pixel, so part of the square may lie outside.

    Args:
        size: side of the square in pixels (16 for CIFAR-10, 8 for CIFAR-100 in the paper).
    """

    by_image = True
    needs_floats = True

    def __init__(self, size: PositiveInt) -> None:
        self.size = size

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        self._shape = tuple(shape[:2])
        return tuple(shape)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        center = rng.integers(0, self._shape, (sum(sizes), 2))
        return {"y": center[:, 0], "x": center[:, 1]}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        rows = self._inside(draws["y"], images.shape[1])[:, :, None, None]
        columns = self._inside(draws["x"], images.shape[2])[:, None, :, None]
        return images.masked_fill(rows & columns, 0), labels

    def _inside(self, center: Tensor, length: int) -> Tensor:
        place = torch.arange(length, device=center.device)
        start = center[:, None] - self.size // 2
        return (place >= start) & (place < start + self.size)


@BATCH_TRANSFORMS.register_module()
class Mixup(BatchTransform):
    """Each image is mixed with another one of its batch, and so is its label.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018, equation 2, with one
    weight ``lam ~ Beta(alpha, alpha)`` per batch. Labels become probabilities [B, classes], whose
    cross-entropy is ``lam CE(y) + (1 - lam) CE(y of the other)``.

    Args:
        alpha: shape of the Beta distribution (1: uniform).
    """

    needs_floats = True

    def __init__(self, alpha: PositiveFloat = 1.0) -> None:
        self.alpha = alpha

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        self._classes = num_classes
        return tuple(shape)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        weights = rng.beta(self.alpha, self.alpha, len(sizes))
        return {
            "weight": np.repeat(weights, sizes),
            "other": np.concatenate([rng.permutation(size) for size in sizes]),
        }

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Batch:
        other = draws["other"]
        if labels.dim() == 1:  # torch's one_hot reads the values, and so waits for the device
            labels = labels[:, None] == torch.arange(self._classes, device=labels.device)
        weight = draws["weight"].to(images.dtype)
        images = torch.lerp(images[other], images, weight.view(-1, 1, 1, 1))
        labels = labels.to(images.dtype)
        return images, torch.lerp(labels[other], labels, weight.view(-1, 1))


class BatchPipeline:
    """Batched transforms in sequence.

    Args:
        transforms: their configs.
        shape: of the input images, [H, W, C].
        num_classes: of the labels.
        dtype: floating point type of the results.
        field: where the configs stand, for messages.

    Attributes:
        normalized: whether the results are floats. shape: of an image of them, [H, W, C].
        by_image: whether the classes of all steps say that they are by image.
    """

    def __init__(
        self,
        transforms: Sequence[Any],
        shape: Sequence[int],
        num_classes: int,
        dtype: torch.dtype,
        field: str,
    ) -> None:
        self.steps: list[BatchTransform] = []
        self.normalized = False
        for number, config in enumerate(transforms):
            step = build(BATCH_TRANSFORMS, config, f"{field}[{number}]", base=BatchTransform)
            if step.needs_floats and not self.normalized:
                raise ConfigError(
                    f"{field}[{number}]: {type(step).__name__} must come after Normalize"
                )
            if step.gives_floats and self.normalized:
                raise ConfigError(f"{field}[{number}]: remove it, images are normalized already")
            self.normalized |= step.gives_floats
            step.dtype = dtype
            shape = step.check(shape, num_classes)
            self.steps.append(step)
        # not inherited: a subclass may mix the images of a batch
        self.by_image = all(vars(type(step)).get("by_image") for step in self.steps)
        self.shape = tuple(shape)
        drawing = (type(step).draw is not BatchTransform.draw for step in self.steps)
        self._random = [number for number, draws in enumerate(drawing) if draws]

    def draw(
        self, sizes: Sequence[int], seed: int, purpose: str, *counters: int
    ) -> list[dict[str, np.ndarray]]:
        """The draws of every step for batches of these sizes.

        Each step has a generator of its own, by (seed, purpose, number of the step, counters), so
        that its draws do not depend on the other steps.
        """
        draws: list[dict[str, np.ndarray]] = [{} for _ in self.steps]
        for number in self._random:
            rng = generator_for(seed, purpose, number, *counters)
            draws[number] = self.steps[number].draw(rng, sizes)
        return draws

    def apply(
        self, images: Tensor, labels: Tensor, draws: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """The batch as models take it: ``inputs`` [B, C, H, W] and ``data_samples``."""
        for step, step_draws in zip(self.steps, draws, strict=True):
            images, labels = step.apply(images, labels, step_draws)
        return {"inputs": images.permute(0, 3, 1, 2), "data_samples": labels}
