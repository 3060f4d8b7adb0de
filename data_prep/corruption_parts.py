"""Building blocks of the corruptions: seeded draws, conversions, blurs, zoom, clouds, frost."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from fedseg.core.seeds import generator_for

SIZE = 32  # height and width of the images, for which the corruptions' parameters are meant
Array = np.ndarray


@dataclass(frozen=True)
class Draws:
    """The random generators of some images, one an image, under one corruption and severity."""

    seed: int
    name: str
    severity: int
    indices: Sequence[int]

    def __iter__(self) -> Iterator[np.random.Generator]:
        for index in self.indices:
            yield generator_for(self.seed, f"cifar-c {self.name}", self.severity, int(index))


def to_unit(images: Array) -> Array:
    """uint8 as float32 in [0, 1]."""
    return images.astype(np.float32) / np.float32(255)


def to_uint8(values: Array) -> Array:
    """[0, 1] as uint8, clipped; fractions are cut off.

    A thousandth of a gray level is given, so that rounding of float32 never costs a whole one.
    """
    return (np.clip(values, 0, 1) * np.float32(255) + np.float32(1e-3)).astype(np.uint8)


def each(images: Array, function: Callable[[Array], Array]) -> Array:
    """``function`` of every image, stacked."""
    return np.stack([function(image) for image in images])


def normal(shape: tuple[int, ...], draws: Draws) -> Array:
    """Standard normal numbers, float32, for each image from its own generator."""
    return np.stack([rng.standard_normal(shape[1:], np.float32) for rng in draws])


def blurred(
    images: Array, sigma: float, cut: float = 4, border: int = cv2.BORDER_REPLICATE
) -> Array:
    """Gaussian blur of float32 images, the kernel reaching ``cut`` sigmas to either side."""
    reach = int(cut * sigma + 0.5)
    if reach == 0:
        return images.copy()
    size = (2 * reach + 1, 2 * reach + 1)
    return each(images, lambda image: cv2.GaussianBlur(image, size, sigma, borderType=border))


def streaked(images: Array, radius: int, sigma: float, angles: Array) -> Array:
    """One-sided motion blur along whole-pixel steps, edge pixels repeated.

    Args:
        images: float32 [n, H, W, C].
        radius: of the kernel, which reaches 2 radius pixels, all to one side.
        sigma: of its half Gaussian, pixels.
        angles: in degrees, one an image.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    steps = steps[weights > 1e-7]  # the others change nothing in 8 bits
    far = int(steps[-1])
    padded = np.pad(images, ((0, 0), (far, far), (far, far), (0, 0)), mode="edge")
    direction = np.deg2rad(angles)
    down = np.ceil(steps * np.sin(direction)[:, None] - 0.5).astype(int) + far
    right = np.ceil(steps * np.cos(direction)[:, None] - 0.5).astype(int) + far
    total = np.zeros_like(images)
    height, width = images.shape[1:3]
    for out, image, rows, columns in zip(total, padded, down, right, strict=True):
        for weight, y, x in zip(weights, rows, columns, strict=False):
            out += weight * image[y : y + height, x : x + width]
    return total


def zoomed(images: Array, factor: float) -> Array:
    """The middle, enlarged by linear interpolation to the images' own size.

    The middle is as many whole pixels as cover the view. Its corner pixels stay corner pixels of
    the enlargement, of which the middle is taken.

    Args:
        images: float32 [S, S, ...]; with images last, whole rows are worked on at once.
        factor: 1 or more.
    """
    size = len(images)
    taken = math.ceil(size / factor)
    enlarged = round(taken * factor)
    if enlarged == taken:
        return images
    place = (enlarged - size) // 2 + np.arange(size)
    place = place * ((taken - 1) / (enlarged - 1))
    low = np.minimum(place.astype(int), taken - 2)
    share = (place - low).astype(np.float32)
    low += (size - taken) // 2
    for axis in (0, 1):
        weight = share.reshape([-1 if i == axis else 1 for i in range(images.ndim)])
        lower, upper = images.take(low, axis), images.take(low + 1, axis)
        images = lower + (upper - lower) * weight
    return images


def in_hsv(images: Array, channel: int, gain: float, more: float) -> Array:
    """Scale saturation (1) or value (2) of the images, add to it and cut it to [0, 1]."""
    flat = to_unit(images).reshape(-1, *images.shape[2:])
    hsv = cv2.cvtColor(flat, cv2.COLOR_RGB2HSV)
    hsv[..., channel] = np.clip(hsv[..., channel] * np.float32(gain) + np.float32(more), 0, 1)
    return to_uint8(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).reshape(images.shape)


def plasma(draws: Draws, decay: float) -> Array:
    """Fractal clouds in [0, 1] by the diamond-square rule, wrapping around: float32 [n, 32, 32].

    Args:
        draws: a generator per image.
        decay: every halving of the step divides the amplitude of the noise by its square.
    """
    heights = np.zeros((len(draws.indices), SIZE, SIZE))
    noise = np.stack([rng.uniform(-1, 1, SIZE * SIZE - 1) for rng in draws])
    step, amplitude, used = SIZE, 1e4, 0
    while step > 1:
        half, count = step // 2, (SIZE // step) ** 2
        bumps = amplitude * noise[:, used : used + 3 * count].reshape(len(noise), 3, -1)
        middle, top, left = (bumps[:, i].reshape(-1, SIZE // step, SIZE // step) for i in range(3))
        corner = heights[:, ::step, ::step]
        beside = corner + np.roll(corner, -1, 2)  # left and right corner of every square
        below = corner + np.roll(corner, -1, 1)
        center = (beside + np.roll(beside, -1, 1)) / 4 + middle
        heights[:, half::step, half::step] = center
        heights[:, ::step, half::step] = (beside + center + np.roll(center, 1, 1)) / 4 + top
        heights[:, half::step, ::step] = (below + center + np.roll(center, 1, 2)) / 4 + left
        used += 3 * count
        step, amplitude = half, amplitude / decay**2
    heights -= heights.min((1, 2), keepdims=True)
    return (heights / heights.max((1, 2), keepdims=True)).astype(np.float32)


# ---- frost on a window pane, drawn in place of the photographs of CIFAR-C

MEANS = (131, 145, 160, 180, 207)  # gray levels, one a pane
PANE = 224  # height and width of a pane, pixels
_FINE = 4  # needles are drawn this much larger
_GLASS, _ICE = (58, 76, 104), (226, 238, 250)  # RGB
_BRANCHES, _DEPTH = 9, 3


@lru_cache(maxsize=2)
def panes(seed: int = 0) -> np.ndarray:
    """The five panes, uint8 [5, PANE, PANE, 3] RGB; they depend on the seed alone.

    The original blends pieces of five photographs, which are not ours to ship: five panes of about
    that size are drawn instead, needles of ice that branch at 60 degrees over blurred, bluish
    glass. They are as unequally bright as the photographs (means from 131 to 207), which decides
    how far frost moves an image; the means in between are chosen for the mean absolute differences
    of the official files (``docs/data_sets.md``).
    """
    drawn = (_pane(generator_for(seed, "frost pane", i)) for i in range(len(MEANS)))
    made = np.stack([_lightened(pane, mean) for pane, mean in zip(drawn, MEANS, strict=True)])
    made.flags.writeable = False
    return made


def _pane(rng: np.random.Generator) -> np.ndarray:
    thickness = _clouds(rng, (3, 6, 12))[..., None]
    grain = _clouds(rng, (24, 48, 96))[..., None]
    needles = _needles(rng)[..., None]
    # where the ice is thick, needles grow together into a rough white sheet
    ice = np.clip(needles * (0.35 + 0.9 * thickness) + 0.75 * thickness * grain**2, 0, 1)
    glass = np.float32(_GLASS) * (0.7 + 0.6 * _clouds(rng, (2, 5))[..., None])
    return np.rint(np.clip(glass + (np.float32(_ICE) - glass) * ice, 0, 255)).astype(np.uint8)


def _lightened(pane: np.ndarray, mean: float) -> np.ndarray:
    """A pane with its levels raised to the power that makes them average ``mean``."""
    levels = np.linspace(0, 1, 256)
    shares = np.bincount(pane.ravel(), minlength=256) / pane.size
    bent = levels ** np.geomspace(0.1, 10, 2000)[:, None]
    closest = bent[np.abs(255 * bent @ shares - mean).argmin()]
    return np.rint(255 * closest).astype(np.uint8)[pane]


def _clouds(rng: np.random.Generator, cells: tuple[int, ...]) -> np.ndarray:
    """Smooth noise in [0, 1], float32 [PANE, PANE]: coarse cells weigh the most."""
    total = np.zeros((PANE, PANE), np.float32)
    for octave, count in enumerate(cells):
        coarse = rng.random((count + 1, count + 1), np.float32)
        total += cv2.resize(coarse, (PANE, PANE), interpolation=cv2.INTER_CUBIC) / 2**octave
    low, high = np.quantile(total, (0.02, 0.98))
    return np.clip((total - low) / (high - low), 0, 1)


def _needles(rng: np.random.Generator) -> np.ndarray:
    """Branching needles in [0, 1], float32 [PANE, PANE]."""
    canvas = np.zeros((PANE * _FINE, PANE * _FINE), np.uint8)
    for _ in range(60):
        start = rng.uniform(0, PANE * _FINE, 2)
        _grow(canvas, rng, start, rng.uniform(0, 2 * np.pi), rng.uniform(60, 260), 0)
    return cv2.resize(canvas, (PANE, PANE), interpolation=cv2.INTER_AREA).astype(np.float32) / 255


def _grow(
    canvas: np.ndarray,
    rng: np.random.Generator,
    start: np.ndarray,
    direction: float,
    length: float,
    depth: int,
) -> None:
    """Draw a needle and, along it, ever shorter ones on both sides."""
    along = np.array([np.cos(direction), np.sin(direction)])
    end = start + length * along
    cv2.line(
        canvas,
        [int(v) for v in np.rint(start)],
        [int(v) for v in np.rint(end)],
        int(rng.integers(150, 256)),
        thickness=max(1, 5 - 2 * depth),
        lineType=cv2.LINE_AA,
    )
    if depth + 1 == _DEPTH or length < 12:
        return
    for share in np.linspace(0.12, 0.92, _BRANCHES):
        for side in (-1, 1):
            angle = direction + side * np.pi / 3 + rng.normal(0, 0.05)
            size = length * 0.45 * (1 - share) * rng.uniform(0.6, 1.2) + 4
            _grow(canvas, rng, start + share * length * along, angle, size, depth + 1)
