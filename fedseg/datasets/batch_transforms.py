"""Augmentation of small images as tensor operations on whole batches.

Images are [B, H, W, C] here: uint8 as they are stored, floating point after :class:`Normalize`. A
model gets them as [B, C, H, W], which without any copy are then in channels_last strides.

What is random is drawn beforehand, for all samples of a client's local epoch at once, by
``draw(rng, sizes)``; the operation itself is a pure function of images, labels and draws. Every
transform says its rule twice: ``apply`` for a batch, on any device, and ``one``, the readable twin,
for one image of the batch in NumPy. Tests hold them against each other.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedseg.checks import check_int
from fedseg.errors import ConfigError
from fedseg.registry import BATCH_TRANSFORMS, build

Draws = Mapping[str, Any]


class BatchTransform(ABC):
    """One step of the augmentation.

    Attributes:
        dtype: the floating point type that images are to have; set by the pipeline.
        needs_floats: whether it must stand after :class:`Normalize`.
        gives_floats: whether it makes floating point images.
    """

    dtype = torch.float32
    needs_floats = False
    gives_floats = False

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        """Tell the images that will come, [H, W, C], and the number of classes.

        Returns:
            The shape that it gives.

        Raises:
            ConfigError: the step has no meaning for them.
        """
        return tuple(shape)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        """Everything random, a row a sample, for batches of these sizes one after another."""
        return {}

    @abstractmethod
    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
        """(images, labels) of a batch, transformed.

        Args:
            images: [B, H, W, C]. labels: int64 [B], or probabilities [B, classes].
            draws: this batch's rows.
        """

    @abstractmethod
    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        """(image, label) number ``i`` of a batch, transformed; the readable twin of ``apply``."""


@BATCH_TRANSFORMS.register_module()
class RandomCrop(BatchTransform):
    """Pad with zeros (black; after :class:`Normalize` the mean colour), cut out a random place.

    Args:
        padding: pixels on each side.
        size: height and width of the result; None: those of the image before padding.
    """

    def __init__(self, padding: int = 4, size: int | None = None) -> None:
        if not isinstance(padding, int) or isinstance(padding, bool) or padding < 0:
            raise ConfigError(f"transforms.RandomCrop.padding: must be >= 0, not {padding!r}")
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise ConfigError(f"transforms.RandomCrop.size: must be positive, not {size!r}")
        self.padding, self.size = padding, size

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        height, width, channels = shape
        target = (height, width) if self.size is None else (self.size, self.size)
        self._room = height + 2 * self.padding - target[0], width + 2 * self.padding - target[1]
        self._target = target
        if min(self._room) < 0:
            raise ConfigError(
                f"transforms.RandomCrop.size: {self.size} is more than the padded image of "
                f"{height + 2 * self.padding} x {width + 2 * self.padding}"
            )
        return (*target, channels)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        corner = rng.integers(0, np.asarray(self._room) + 1, (sum(sizes), 2))
        return {"top": corner[:, 0], "left": corner[:, 1]}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
        pad = self.padding
        padded = functional.pad(images, (0, 0, pad, pad, pad, pad)).contiguous()
        count, height, width, channels = padded.shape
        # every window of every image, as a view that costs nothing: [B, tops, lefts, H, W * C]
        windows = padded.as_strided(
            (
                count,
                self._room[0] + 1,
                self._room[1] + 1,
                self._target[0],
                self._target[1] * channels,
            ),
            (height * width * channels, width * channels, channels, width * channels, 1),
        )
        which = torch.arange(count, device=images.device)
        cut = windows[which, draws["top"], draws["left"]]
        return cut.view(count, *self._target, channels), labels

    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        pad = self.padding
        padded = np.pad(images[i], ((pad, pad), (pad, pad), (0, 0)))
        top, left = draws["top"][i], draws["left"][i]
        return padded[top : top + self._target[0], left : left + self._target[1]], labels[i]


@BATCH_TRANSFORMS.register_module()
class RandomFlip(BatchTransform):
    """Mirror left and right.

    Args:
        prob: how often.
    """

    def __init__(self, prob: float = 0.5) -> None:
        if not isinstance(prob, int | float) or not 0 <= prob <= 1:
            raise ConfigError(f"transforms.RandomFlip.prob: must be from 0 to 1, not {prob!r}")
        self.prob = prob

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        return {"flip": rng.random(sum(sizes)) < self.prob}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
        flat, mirrored = images.flatten(1), images.flip(2).flatten(1)
        whole = flat.shape[1] % 8 == 0 and flat.storage_offset() % 8 == 0
        if flat.dtype == torch.uint8 and whole:  # eight values at a time: 5 x
            flat, mirrored = flat.view(torch.int64), mirrored.view(torch.int64)
        chosen = torch.where(draws["flip"].view(-1, 1), mirrored, flat)
        return chosen.view(images.dtype).view(images.shape), labels

    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        return images[i][:, ::-1] if draws["flip"][i] else images[i], labels[i]


@BATCH_TRANSFORMS.register_module()
class Normalize(BatchTransform):
    """uint8 to floating point: ``(x / 255 - mean) / std`` for every channel.

    Args:
        mean, std: a number a channel, in units of 0..1.
    """

    gives_floats = True

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if len(mean) != len(std):
            raise ConfigError(f"transforms.Normalize: mean {mean} and std {std} differ in length")
        if not (all(0 <= m <= 1 for m in mean) and all(0 < s <= 1 for s in std)):
            raise ConfigError(
                f"transforms.Normalize: mean {list(mean)} and std {list(std)} are in units of "
                "0..1, std above 0"
            )
        self.mean, self.std = tuple(mean), tuple(std)
        self._constants: dict[Any, tuple[Tensor, Tensor]] = {}

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        if shape[2] != len(self.mean):
            raise ConfigError(
                f"transforms.Normalize.mean: has {len(self.mean)} channels, the images have "
                f"{shape[2]}"
            )
        return tuple(shape)

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
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

    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        return (images[i] / 255 - np.asarray(self.mean)) / np.asarray(self.std), labels[i]


@BATCH_TRANSFORMS.register_module()
class Cutout(BatchTransform):
    """A square of zeros, which after :class:`Normalize` is the mean colour.

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout",
    2017: the centre is any pixel, so that a part of the square may lie outside.

    Args:
        size: side of the square in pixels (16 for CIFAR-10, 8 for CIFAR-100 in the paper).
    """

    needs_floats = True

    def __init__(self, size: int) -> None:
        check_int("transforms.Cutout.size", size)
        self.size = size

    def check(self, shape: Sequence[int], num_classes: int) -> tuple[int, int, int]:
        self._shape = tuple(shape[:2])
        return tuple(shape)

    def draw(self, rng: np.random.Generator, sizes: Sequence[int]) -> dict[str, np.ndarray]:
        centre = rng.integers(0, self._shape, (sum(sizes), 2))
        return {"y": centre[:, 0], "x": centre[:, 1]}

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
        rows = self._inside(draws["y"], images.shape[1])[:, :, None, None]
        columns = self._inside(draws["x"], images.shape[2])[:, None, :, None]
        return images.masked_fill(rows & columns, 0), labels

    def _inside(self, centre: Tensor, length: int) -> Tensor:
        place = torch.arange(length, device=centre.device)
        start = centre[:, None] - self.size // 2
        return (place >= start) & (place < start + self.size)

    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        image = np.array(images[i])
        top, left = draws["y"][i] - self.size // 2, draws["x"][i] - self.size // 2
        image[max(top, 0) : top + self.size, max(left, 0) : left + self.size] = 0
        return image, labels[i]


@BATCH_TRANSFORMS.register_module()
class Mixup(BatchTransform):
    """Each image becomes a mixture with another one of its batch, and so does its label.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018, equation 2; one mixing
    weight ``lam ~ Beta(alpha, alpha)`` a batch. Labels become probabilities [B, classes]: the
    cross-entropy with them is ``lam CE(y) + (1 - lam) CE(y of the other)``.

    Args:
        alpha: shape of the Beta distribution, > 0 (1: uniform).
    """

    needs_floats = True

    def __init__(self, alpha: float = 1.0) -> None:
        if not isinstance(alpha, int | float) or not 0 < alpha < math.inf:
            raise ConfigError(f"transforms.Mixup.alpha: must be a positive number, not {alpha!r}")
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

    def apply(self, images: Tensor, labels: Tensor, draws: Mapping[str, Tensor]) -> Any:
        other = draws["other"]
        if labels.dim() == 1:  # torch's one_hot would look at the values, which is to wait for them
            labels = labels[:, None] == torch.arange(self._classes, device=labels.device)
        weight = draws["weight"].to(images.dtype)
        images = torch.lerp(images[other], images, weight.view(-1, 1, 1, 1))
        labels = labels.to(images.dtype)
        return images, torch.lerp(labels[other], labels, weight.view(-1, 1))

    def one(
        self, images: Sequence[np.ndarray], labels: Sequence[Any], i: int, draws: Draws
    ) -> tuple[np.ndarray, Any]:
        weight, other = draws["weight"][i], draws["other"][i]
        image = weight * images[i] + (1 - weight) * images[other]
        own, second = (
            np.eye(self._classes)[label] if np.ndim(label) == 0 else label
            for label in (labels[i], labels[other])
        )
        return image, weight * own + (1 - weight) * second


class BatchPipeline:
    """Batched transforms one after another.

    Args:
        transforms: their configs.
        shape: of the images that come, [H, W, C].
        num_classes: of the labels.
        dtype: floating point type of the images that go out.
        field: where the configs stand, for messages.

    Attributes:
        normalized: whether the images come out as floats.
    """

    def __init__(
        self,
        transforms: Sequence[Any],
        shape: Sequence[int],
        num_classes: int,
        dtype: torch.dtype,
        field: str,
    ) -> None:
        if not isinstance(transforms, list | tuple):
            raise ConfigError(f"{field}: must be a list of transforms, not {transforms!r}")
        self.steps: list[BatchTransform] = []
        self.normalized = False
        for number, config in enumerate(transforms):
            step = build(BATCH_TRANSFORMS, config, f"{field}[{number}]")
            if not isinstance(step, BatchTransform):
                raise ConfigError(f"{field}[{number}]: {type(step).__name__} is no BatchTransform")
            if step.needs_floats and not self.normalized:
                raise ConfigError(
                    f"{field}[{number}]: {type(step).__name__} must stand after Normalize"
                )
            if step.gives_floats and self.normalized:
                raise ConfigError(f"{field}[{number}]: the images are normalised already")
            self.normalized |= step.gives_floats
            step.dtype = dtype
            shape = step.check(shape, num_classes)
            self.steps.append(step)

    def draw(
        self, generator: Callable[[int], np.random.Generator], sizes: Sequence[int]
    ) -> list[dict[str, np.ndarray]]:
        """The draws of every step for batches of these sizes.

        Args:
            generator: the number of a step -> its generator, so that no step's draws depend on
                which others there are before it draws.
        """
        return [step.draw(generator(number), sizes) for number, step in enumerate(self.steps)]

    def apply(
        self, images: Tensor, labels: Tensor, draws: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """The batch as models take it: ``inputs`` [B, C, H, W] and ``data_samples``."""
        for step, own in zip(self.steps, draws, strict=True):
            images, labels = step.apply(images, labels, own)
        return {"inputs": images.permute(0, 3, 1, 2), "data_samples": labels}

    def one_by_one(
        self, images: np.ndarray, labels: np.ndarray, draws: Sequence[Draws]
    ) -> dict[str, np.ndarray]:
        """What ``apply`` gives, made by the readable twins, image after image."""
        images, labels = list(images), list(labels)
        for step, own in zip(self.steps, draws, strict=True):
            made = [step.one(images, labels, i, own) for i in range(len(images))]
            images, labels = (list(part) for part in zip(*made, strict=True))
        return {
            "inputs": np.stack(images).transpose(0, 3, 1, 2),
            "data_samples": np.stack(labels),
        }
