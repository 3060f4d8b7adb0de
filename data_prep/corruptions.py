"""The 19 corruptions of CIFAR-10-C, each at five severities, over batches of small RGB images.

Which corruptions, their parameters and how each works are those of CIFAR-C (Hendrycks and
Dietterich, ICLR 2019), whose severities are milder than ImageNet-C's. What is random is drawn anew,
so images are not the official ones; what is not random (defocus, zoom and Gaussian blur,
brightness, contrast, pixelation, JPEG, saturation) follows the same arithmetic, cutting fractions
of a grey level off as the official files do.

Two things differ on purpose: frost is drawn (:mod:`data_prep.frost`) where the original blends
photographs, and motion blur adds up shifted images, as ImageMagick does, without needing it.
Filters, warps, colour spaces and JPEG are OpenCV's, pixelation is Pillow's (as in the original).
Albumentations' namesakes are not used: their defocus knows whole radii only, and their spatter has
been reworked.

An image's corruption depends on the seed, the corruption, the severity and the image's index in the
test set alone, never on how many images are worked on at once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import Image

from data_prep.frost import panes
from fedseg.core.seeds import generator_for
from fedseg.datasets.corrupted import CORRUPTIONS, SEVERITIES

VERSION = 1
"""Goes up when corrupted images of the same seed change."""

SIZE = 32
"""Height and width of the images, for which the parameters are meant."""

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


def corrupt(
    images: Array,
    name: str,
    severity: int,
    indices: Sequence[int] | None = None,
    seed: int = 0,
) -> Array:
    """Images under one corruption.

    Args:
        images: uint8 [n, 32, 32, 3] RGB.
        name: of the corruption.
        severity: 1 to 5.
        indices: of the images in the test set; 0 to n - 1 by default.
        seed: another seed draws other noise.

    Returns:
        uint8 [n, 32, 32, 3], a new array.
    """
    if images.dtype != np.uint8 or images.shape[1:] != (SIZE, SIZE, 3):
        raise ValueError(
            f"images must be uint8 [n, {SIZE}, {SIZE}, 3], not {images.dtype} {images.shape}"
        )
    if severity not in SEVERITIES:
        raise ValueError(f"severity must be 1 to {len(SEVERITIES)}, not {severity!r}")
    draws = Draws(seed, name, severity, range(len(images)) if indices is None else indices)
    if len(draws.indices) != len(images):
        raise ValueError(f"{len(draws.indices)} indices for {len(images)} images")
    function, parameters = _METHODS[name]
    return function(np.ascontiguousarray(images), draws, *parameters[severity - 1])


# ------------------------------------------------------------------------------------------- noise


def gaussian_noise(images: Array, draws: Draws, std: float) -> Array:
    """Adds normal noise; ``std`` of the full range."""
    return _cut(_unit(images) + np.float32(std) * _normal(images.shape, draws))


def shot_noise(images: Array, draws: Draws, photons: float) -> Array:
    """Poisson noise of a sensor that counts ``photons`` where the image is white."""
    expected = _unit(images) * np.float32(photons)
    counts = [rng.poisson(image) for rng, image in zip(draws, expected, strict=True)]
    return _cut(np.stack(counts).astype(np.float32) / np.float32(photons))


def impulse_noise(images: Array, draws: Draws, share: float) -> Array:
    """Salt and pepper: a share of all values is set to 0 or 255, each half of the time."""
    chance = _uniform(images.shape, draws)
    pepper, salt = chance < share / 2, chance >= 1 - share / 2
    return np.where(salt, np.uint8(255), np.where(pepper, np.uint8(0), images))


def speckle_noise(images: Array, draws: Draws, std: float) -> Array:
    """Normal noise in proportion to the value."""
    clean = _unit(images)
    return _cut(clean + clean * (np.float32(std) * _normal(images.shape, draws)))


# -------------------------------------------------------------------------------------------- blur


def gaussian_blur(images: Array, draws: Draws, sigma: float) -> Array:
    """Gaussian of ``sigma`` pixels, cut at four of them."""
    return _cut(_blurred(_unit(images), sigma))


def defocus_blur(images: Array, draws: Draws, radius: float, alias_blur: float) -> Array:
    """A disc of ``radius`` pixels whose edge is softened by a 3x3 Gaussian of ``alias_blur``."""
    reach = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = (x**2 + y**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disc / disc.sum(), (3, 3), alias_blur, borderType=cv2.BORDER_CONSTANT)
    return _cut(_each(_unit(images), lambda image: cv2.filter2D(image, -1, kernel)))


def glass_blur(images: Array, draws: Draws, sigma: float, reach: int, times: int) -> Array:
    """Pixels wander: blurred, ``times`` shuffled locally, blurred again.

    A pixel takes the value found up to ``reach`` rows above and columns left of it. (The paper
    tells of swapping the two, and the script means to; it copies, and so did the files.)
    """
    n, height, width, _ = images.shape
    start = reach + 1  # the first rows and columns stay
    size = (times, height - start, width - start, 2)
    shift = np.stack([rng.integers(-reach, reach, size) for rng in draws])
    image = np.arange(n)[:, None, None]
    row = np.arange(start, height)[:, None]
    column = np.arange(start, width)
    wandering = _cut(_blurred(_unit(images), sigma))
    for time in range(times):
        above, aside = row + shift[:, time, ..., 0], column + shift[:, time, ..., 1]
        pixels = wandering.reshape(-1, 3)
        wandering[:, start:, start:] = pixels.take((image * height + above) * width + aside, 0)
    return _cut(_blurred(_unit(wandering), sigma))


def motion_blur(images: Array, draws: Draws, radius: int, sigma: float) -> Array:
    """A streak to one side, at an angle within 45 degrees of the horizontal."""
    angles = np.array([rng.uniform(-45, 45) for rng in draws])
    streaked = _streaked(images.astype(np.float32), radius, sigma, angles)
    return np.rint(np.clip(streaked, 0, 255)).astype(np.uint8)


def zoom_blur(images: Array, draws: Draws, furthest: float) -> Array:
    """The mean of the image and of its enlargements by 1, 1.01, ... up to ``furthest``."""
    clean = np.ascontiguousarray(_unit(images).transpose(1, 2, 3, 0))
    total = clean.copy()
    factors = np.arange(1, furthest, 0.01)
    for factor in factors:
        total += _zoomed(clean, float(factor))
    return np.ascontiguousarray(_cut(total / np.float32(len(factors) + 1)).transpose(3, 0, 1, 2))


# ----------------------------------------------------------------------------------------- weather


def snow(
    images: Array,
    draws: Draws,
    mean: float,
    std: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    clear: float,
) -> Array:
    """Flakes are the peaks of enlarged noise, streaked downwards, twice; the image turns pale.

    Args:
        images, draws: see :func:`corrupt`.
        mean, std: of the noise.
        zoom: how large flakes are.
        threshold: noise below it is no flake.
        radius, sigma: of the streak, pixels.
        clear: weight of the image against its pale version.
    """
    noise = np.float32(mean) + np.float32(std) * _normal((len(images), SIZE, SIZE), draws)
    noise = _zoomed(noise.transpose(1, 2, 0), zoom).transpose(2, 0, 1)
    flakes = _cut(np.where(noise < threshold, 0, noise)).astype(np.float32)
    # An own purpose: the noise above has used up the generators' first numbers.
    winds = Draws(draws.seed, f"{draws.name} wind", draws.severity, draws.indices)
    angles = np.array([rng.uniform(-135, -45) for rng in winds])
    flakes = np.rint(_streaked(flakes[..., None], radius, sigma, angles)) / np.float32(255)
    clean = _unit(images)
    grey = _each(clean, lambda image: cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[..., None]
    pale = np.maximum(clean, grey * np.float32(1.5) + np.float32(0.5))
    dimmed = np.float32(clear) * clean + np.float32(1 - clear) * pale
    return _cut(dimmed + flakes + flakes[:, ::-1, ::-1])


def frost(images: Array, draws: Draws, weight: float, ice: float) -> Array:
    """``weight`` times the image plus ``ice`` times a random piece of a random frosted pane."""
    frosted = panes(draws.seed)
    pieces = np.empty(images.shape, np.float32)
    for piece, rng in zip(pieces, draws, strict=True):
        which = rng.integers(len(frosted))
        y, x = rng.integers(0, frosted.shape[1] - SIZE, 2)
        piece[:] = frosted[which, y : y + SIZE, x : x + SIZE]
    return _cut((np.float32(weight) * images + np.float32(ice) * pieces) / np.float32(255))


def fog(images: Array, draws: Draws, density: float, decay: float) -> Array:
    """Adds a plasma fractal, then scales back to the image's own brightest value."""
    clean = _unit(images)
    brightest = clean.max((1, 2, 3), keepdims=True)
    foggy = clean + np.float32(density) * plasma(draws, decay)[..., None]
    return _cut(foggy * brightest / (brightest + np.float32(density)))


def plasma(draws: Draws, decay: float) -> Array:
    """Fractal clouds in [0, 1] by the diamond-square rule, wrapping round: float32 [n, 32, 32].

    Args:
        draws: a generator an image.
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
        centre = (beside + np.roll(beside, -1, 1)) / 4 + middle
        heights[:, half::step, half::step] = centre
        heights[:, ::step, half::step] = (beside + centre + np.roll(centre, 1, 1)) / 4 + top
        heights[:, half::step, ::step] = (below + centre + np.roll(centre, 1, 2)) / 4 + left
        used += 3 * count
        step, amplitude = half, amplitude / decay**2
    heights -= heights.min((1, 2), keepdims=True)
    return (heights / heights.max((1, 2), keepdims=True)).astype(np.float32)


def spatter(
    images: Array,
    draws: Draws,
    mean: float,
    std: float,
    sigma: float,
    threshold: float,
    strength: float,
    mud: bool,
) -> Array:
    """Drops of water (severity 1 to 3) or mud (4 and 5) where blurred noise has its peaks.

    Args:
        images, draws: see :func:`corrupt`.
        mean, std: of the noise.
        sigma: of its blur, pixels.
        threshold: noise below it stays dry.
        strength: of water: how bright; of mud: the blur of its edge, pixels.
        mud: which of the two.
    """
    noise = np.float32(mean) + np.float32(std) * _normal((len(images), SIZE, SIZE), draws)
    liquid = _blurred(noise, sigma)
    liquid[liquid < threshold] = 0
    clean = _unit(images)
    if mud:
        cover = _blurred((liquid > threshold).astype(np.float32), strength)[..., None]
        cover[cover < 0.8] = 0
        brown = np.float32((63, 42, 20)) / np.float32(255)
        return _cut(clean * (1 - cover) + brown * cover)
    shine = _each(_cut(liquid), _shine)
    highest = shine.max((1, 2), keepdims=True)
    shine = shine / np.where(highest > 0, highest, 1)  # an image without a drop stays as it is
    turquoise = np.float32((175, 238, 238)) / np.float32(255)
    return _cut(clean + np.float32(strength) * shine[..., None] * turquoise)


def _shine(liquid: Array) -> Array:
    """How light breaks in drops: embossed distance to their edges, float32 [H, W].

    Args:
        liquid: depth of the drops, uint8 [H, W].
    """
    edges = 255 - cv2.Canny(liquid, 50, 150)
    distance = np.minimum(cv2.distanceTransform(edges, cv2.DIST_L2, 5), 20)
    distance = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    emboss = np.float32([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    relief = cv2.blur(cv2.filter2D(distance, cv2.CV_8U, emboss), (3, 3))
    return liquid.astype(np.float32) * relief


# ----------------------------------------------------------------------------------------- digital


def brightness(images: Array, draws: Draws, more: float) -> Array:
    """Adds to the value in HSV."""
    hsv = _hsv(images)
    hsv[..., 2] = np.clip(hsv[..., 2] + np.float32(more), 0, 1)
    return _from_hsv(hsv, images.shape)


def saturate(images: Array, draws: Draws, gain: float, more: float) -> Array:
    """Scales the saturation in HSV and adds to it; the two mildest severities wash colours out."""
    hsv = _hsv(images)
    hsv[..., 1] = np.clip(hsv[..., 1] * np.float32(gain) + np.float32(more), 0, 1)
    return _from_hsv(hsv, images.shape)


def contrast(images: Array, draws: Draws, gain: float) -> Array:
    """Shrinks the distance of every value to its channel's mean over the image."""
    # Whole numbers: their sum has no rounding that could depend on the order.
    mean = images.sum((1, 2), dtype=np.int64, keepdims=True) / (SIZE * SIZE * 255)
    return _cut((_unit(images) - mean) * gain + mean)


def elastic_transform(
    images: Array, draws: Draws, strength: float, sigma: float, jitter: float
) -> Array:
    """A random affine map, then every pixel moves by smooth noise.

    Args:
        images, draws: see :func:`corrupt`.
        strength: of the noise before it is smoothed, pixels.
        sigma: of the smoothing, pixels.
        jitter: how far each of three points that fix the affine map moves at most, pixels.
    """
    middle, arm = SIZE // 2, SIZE // 3
    points = np.float32(
        [[middle + arm, middle + arm], [middle + arm, middle - arm], [middle - arm, middle - arm]]
    )
    y, x = np.float32(np.mgrid[:SIZE, :SIZE])
    moved = np.empty(images.shape, np.float32)
    for out, image, rng in zip(moved, _unit(images), draws, strict=True):
        to = points + np.float32(rng.uniform(-jitter, jitter, points.shape))
        affine = cv2.getAffineTransform(points, to)
        out[:] = cv2.warpAffine(image, affine, (SIZE, SIZE), borderMode=cv2.BORDER_REFLECT_101)
        if strength:
            field = np.float32(rng.uniform(-1, 1, (2, SIZE, SIZE)))
            dx, dy = _blurred(field, sigma, cut=3, border=cv2.BORDER_REFLECT) * np.float32(strength)
            where = x + dx, y + dy
            out[:] = cv2.remap(out, *where, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return _cut(moved)


def pixelate(images: Array, draws: Draws, scale: float) -> Array:
    """Shrinks by box averaging and enlarges again."""
    small = (int(SIZE * scale), int(SIZE * scale))

    def through(image: Array) -> Array:
        shrunk = Image.fromarray(image).resize(small, Image.Resampling.BOX)
        return np.asarray(shrunk.resize((SIZE, SIZE), Image.Resampling.BOX))

    return _each(images, through)


def jpeg_compression(images: Array, draws: Draws, quality: int) -> Array:
    """Through a JPEG file of this quality, colours at half resolution as is usual."""

    options = (cv2.IMWRITE_JPEG_QUALITY, quality)
    options += (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420)

    def through(image: Array) -> Array:
        _, file = cv2.imencode(".jpg", image, options)
        return cv2.imdecode(file, cv2.IMREAD_COLOR)

    return _each(images[..., ::-1], through)[..., ::-1].copy()  # OpenCV's files hold BGR


# ------------------------------------------------------------------------------------------- parts


def _unit(images: Array) -> Array:
    """uint8 as float32 in [0, 1]."""
    return images.astype(np.float32) / np.float32(255)


def _cut(values: Array) -> Array:
    """[0, 1] as uint8, clipped; fractions are cut off.

    A thousandth of a grey level is given, so that rounding of float32 never costs a whole one.
    """
    return (np.clip(values, 0, 1) * np.float32(255) + np.float32(1e-3)).astype(np.uint8)


def _each(images: Array, function: Callable[[Array], Array]) -> Array:
    """``function`` of every image, stacked."""
    return np.stack([function(image) for image in images])


def _normal(shape: tuple[int, ...], draws: Draws) -> Array:
    out = np.empty(shape, np.float32)
    for row, rng in zip(out, draws, strict=True):
        rng.standard_normal(out=row, dtype=np.float32)
    return out


def _uniform(shape: tuple[int, ...], draws: Draws) -> Array:
    out = np.empty(shape, np.float32)
    for row, rng in zip(out, draws, strict=True):
        rng.random(out=row, dtype=np.float32)
    return out


def _blurred(
    images: Array, sigma: float, cut: float = 4, border: int = cv2.BORDER_REPLICATE
) -> Array:
    """Gaussian blur of float32 images, the kernel reaching ``cut`` sigmas to either side."""
    reach = int(cut * sigma + 0.5)
    if reach == 0:
        return images.copy()
    size = (2 * reach + 1, 2 * reach + 1)
    return _each(images, lambda image: cv2.GaussianBlur(image, size, sigma, borderType=border))


def _streaked(images: Array, radius: int, sigma: float, angles: Array) -> Array:
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


def _zoomed(images: Array, factor: float) -> Array:
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


def _hsv(images: Array) -> Array:
    """float32 [n * H, W, 3]: hue in degrees, saturation and value in [0, 1]."""
    return cv2.cvtColor(_unit(images).reshape(-1, *images.shape[2:]), cv2.COLOR_RGB2HSV)


def _from_hsv(hsv: Array, shape: tuple[int, ...]) -> Array:
    return _cut(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).reshape(shape)


# -------------------------------------------------------------------------------------- severities

_METHODS: dict[str, tuple[Callable[..., Array], tuple[tuple[Any, ...], ...]]] = {
    "gaussian_noise": (gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,))),
    "shot_noise": (shot_noise, ((500,), (250,), (100,), (75,), (50,))),
    "impulse_noise": (impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,))),
    "defocus_blur": (defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (
        glass_blur,
        ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    ),
    "motion_blur": (motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (zoom_blur, ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,))),
    "snow": (
        snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "frost": (frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,))),
    "contrast": (contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,))),
    "elastic_transform": (
        elastic_transform,
        ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
    ),
    "pixelate": (pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,))),
    "jpeg_compression": (jpeg_compression, ((80,), (65,), (58,), (50,), (40,))),
    "speckle_noise": (speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,))),
    "gaussian_blur": (gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1,))),
    "spatter": (
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, False),
            (0.65, 0.1, 0.8, 0.7, 0.5, False),
            (0.65, 0.3, 1, 0.69, 0.5, False),
            (0.65, 0.1, 0.7, 0.69, 0.6, True),
            (0.65, 0.1, 0.5, 0.68, 0.6, True),
        ),
    ),
    "saturate": (saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
}
assert tuple(_METHODS) == CORRUPTIONS
