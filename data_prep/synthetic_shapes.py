"""Synthetic shapes: a procedural image classification set, 32x32 pixels, ten classes.

Every image shows one shape or one patch of texture at a random place, of random size, rotation,
stretch and colors, on a darker, shaded background with specks and noise. Mirroring or a shift of a
few pixels keeps the class, and a linear model of the pixels classifies less than half of the images
correctly: the others take local features.

An image depends on the seed, its split and its index alone: a longer set begins with the shorter
one, and how many images are drawn at once changes no byte.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import write_images

SIZE = 32  # height and width of an image, pixels
NAME = "SyntheticShapes"  # in dataset.json
VERSION = 1  # goes up when images of the same seed change
CHUNK = 256  # images drawn at once, so that their arrays stay in the processor's cache

# Pixel centers from the middle of the image: x and y, [1, H, W].
_X, _Y = np.mgrid[:SIZE, :SIZE][::-1, None].astype(np.float32) - np.float32((SIZE - 1) / 2)
_SPECKS = 4
_DRAWS = 20 + 6 * _SPECKS  # uniform numbers an image; taking too many is an error

Array = np.ndarray


# ---- the shapes
#
# Signed distances to a shape's outline, negative inside, in units of the shape's radius. x and y:
# [n, H, W], coordinates in the shape's own frame; p, q: [n, 1, 1], two properties in [0, 1).


def _disc(x: Array, y: Array, p: Array, q: Array) -> Array:
    return np.hypot(x, y) - 0.9


def _ring(x: Array, y: Array, p: Array, q: Array) -> Array:
    return np.abs(np.hypot(x, y) - 0.75) - (0.16 + 0.1 * p)


def _crescent(x: Array, y: Array, p: Array, q: Array) -> Array:
    bite = np.hypot(x - (0.5 + 0.15 * p), y) - (0.75 + 0.1 * q)
    return np.maximum(np.hypot(x, y) - 1, -bite)


def _square(x: Array, y: Array, p: Array, q: Array) -> Array:
    return np.maximum(np.abs(x), np.abs(y)) - 0.8


def _triangle(x: Array, y: Array, p: Array, q: Array) -> Array:
    side = np.maximum(np.abs(x) * np.float32(np.sqrt(3) / 2) - y * 0.5, y)
    return side - 0.55


def _cross(x: Array, y: Array, p: Array, q: Array) -> Array:
    x, y = np.abs(x), np.abs(y)
    width = 0.24 + 0.1 * p
    return np.minimum(np.maximum(x - 1, y - width), np.maximum(y - 1, x - width))


def _star(x: Array, y: Array, p: Array, q: Array) -> Array:
    """Five points: every half point is the same line, after folding."""
    tip, notch = np.float32(np.pi / 5), 0.42 + 0.08 * p
    angle = np.arctan2(x, y) / (2 * tip)
    angle = (angle - np.rint(angle)) * (2 * tip)
    radius = np.hypot(x, y)
    across, along = radius * np.abs(np.sin(angle)), radius * np.cos(angle)
    # the line from the tip (0, 1.1) to the notch, which lies half a turn of the star away
    dx, dy = notch * np.sin(tip), notch * np.cos(tip) - 1.1
    return (across * -dy + (along - 1.1) * dx) / np.hypot(dx, dy)


def _wave(x: Array, period: Array, phase: Array) -> Array:
    """Signed distance to stripes as wide as the gaps between them."""
    place = x / period + phase
    return (np.abs(place - np.floor(place) - 0.5) - 0.25) * period


def _patch(x: Array, y: Array) -> Array:
    """The outline of textures: between a disc and a square."""
    x, y = np.abs(x), np.abs(y)
    return np.maximum(np.maximum(x, y), (x + y) * 0.72) - 0.95


def _stripes(x: Array, y: Array, p: Array, q: Array) -> Array:
    return np.maximum(_patch(x, y), _wave(x, 0.5 + 0.2 * p, q))


def _checker(x: Array, y: Array, p: Array, q: Array) -> Array:
    period = 0.9 + 0.2 * p
    a, b = _wave(x, period, q), _wave(y, period, q)
    field = np.where((a < 0) == (b < 0), -1, 1) * np.minimum(np.abs(a), np.abs(b))
    return np.maximum(_patch(x, y), field)


def _dots(x: Array, y: Array, p: Array, q: Array) -> Array:
    period = 0.6 + 0.1 * p
    x, y = x / period + q, y / period + q
    dot = np.hypot(x - np.floor(x) - 0.5, y - np.floor(y) - 0.5) - 0.3
    return np.maximum(_patch((x - q) * period, (y - q) * period), dot * period)


_SHAPES: tuple[Callable[[Array, Array, Array, Array], Array], ...] = (
    *(_disc, _ring, _crescent, _square, _triangle),
    *(_cross, _star, _stripes, _checker, _dots),
)

CLASSES = tuple(shape.__name__.lstrip("_") for shape in _SHAPES)
"""Names of the classes, in the order of their labels."""


# ---- the images


def labels_of(indices: Sequence[int] | Array) -> Array:
    """The class of every image, int64 [n]: they alternate, so that a set is balanced."""
    return np.asarray(indices, dtype=np.int64) % len(CLASSES)


def write_shapes(
    root: str | Path, train: int = 10_000, test: int = 2_000, seed: int = 0
) -> dict[str, Any]:
    """Write a prepared folder of so many images; returns the content of ``dataset.json``."""
    parts = [
        (render_images(range(count), split, seed), labels_of(range(count)))
        for split, count in (("train", train), ("test", test))
    ]
    source = f"rendered by data_prep/synthetic_shapes.py, version {VERSION}, seed {seed}"
    return write_images(root, NAME, CLASSES, *parts, synthetic=True, source=source)


def render_images(indices: Sequence[int] | Array, split: str = "train", seed: int = 0) -> Array:
    """Images of these indices, RGB uint8 [n, 32, 32, 3]; ``train`` and ``test`` share no draw."""
    indices = np.asarray(indices, dtype=np.int64)
    images = np.empty((len(indices), SIZE, SIZE, 3), np.uint8)
    for begin in range(0, len(indices), CHUNK):
        part = indices[begin : begin + CHUNK]
        images[begin : begin + CHUNK] = _render(part, split, seed)
    return images


def _render(indices: Array, split: str, seed: int) -> Array:
    draws = np.empty((len(indices), _DRAWS), np.float32)
    noise = np.empty((len(indices), SIZE, SIZE, 3), np.float32)
    for row, index in enumerate(indices):
        # the purpose keeps its old words: others would give other images
        generator = generator_for(seed, f"embedded images {split}", int(index))
        generator.random(dtype=np.float32, out=draws[row])
        generator.standard_normal(dtype=np.float32, out=noise[row])
    take = _Draws(draws)
    background, foreground = _colors(take)
    image = _shaded(background, take)
    for _ in range(_SPECKS):
        image += (take.color() - image) * _speck(take)[..., None]
    shape = _shaded(foreground, take)
    image += (shape - image) * _coverage(labels_of(indices), take)[..., None]
    image += noise * take.between(0.01, 0.04)[..., None]
    return np.clip(np.rint(image * 255), 0, 255).astype(np.uint8)


class _Draws:
    """The columns of uniform numbers, one after the other, as [n, 1, 1]."""

    def __init__(self, draws: Array) -> None:
        self._columns = iter(draws.T[:, :, None, None])

    def between(self, low: float, high: float) -> Array:
        return low + (high - low) * next(self._columns)

    def color(self) -> Array:
        """Any color: [n, 1, 1, 3] in [0, 1]."""
        return np.stack([self.between(0, 1) for _ in range(3)], axis=-1)


def _colors(take: _Draws) -> tuple[Array, Array]:
    """Colors of background and shape: any hue, and the shape is the lighter one."""
    contrast = take.between(0.4, 0.7)
    middle = contrast / 2 + (1 - contrast) * take.between(0.1, 0.9)
    tints = []
    for side in (-0.5, 0.5):
        tint = take.color() - 0.5
        tint -= (tint[..., :1] + tint[..., 1:2] + tint[..., 2:]) / 3
        tints.append((middle + side * contrast)[..., None] + 0.3 * tint)
    return tints[0], tints[1]


def _shaded(color: Array, take: _Draws) -> Array:
    """A color over the whole image, with light that falls from a side: [n, H, W, 3]."""
    light = _X * take.between(-0.15, 0.15) + _Y * take.between(-0.15, 0.15)
    return color + (light / (SIZE / 2))[..., None]


def _speck(take: _Draws) -> Array:
    """Coverage of a small disc anywhere: [n, H, W]."""
    x, y = _X - take.between(-16, 16), _Y - take.between(-16, 16)
    return np.clip(take.between(0.7, 2) + 0.5 - np.hypot(x, y), 0, 1)


def _coverage(labels: Array, take: _Draws) -> Array:
    """The part of each pixel that the shape covers: [n, H, W]."""
    x, y = _X - take.between(-4, 4), _Y - take.between(-4, 4)
    radius, angle = take.between(8.5, 12.5), take.between(-np.pi, np.pi)
    cos, sin = np.cos(angle), np.sin(angle)
    stretch = take.between(0.9, 1.1)
    x, y = (cos * x + sin * y) / (radius * stretch), (cos * y - sin * x) * stretch / radius
    p, q = take.between(0, 1), take.between(0, 1)
    distance = np.empty(x.shape, np.float32)
    for label, shape in enumerate(_SHAPES):
        rows = labels == label
        if rows.any():
            distance[rows] = shape(x[rows], y[rows], p[rows], q[rows])
    return np.clip(0.5 - distance * radius, 0, 1)
