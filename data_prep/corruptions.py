"""The 19 corruptions of CIFAR-10-C, each at five severities, over batches of small RGB images.

Which corruptions, their parameters and how each works are those of CIFAR-C (Hendrycks and
Dietterich, ICLR 2019), whose severities are milder than ImageNet-C's. What is random is drawn anew,
so images are not the official ones; what is not random (defocus, zoom and Gaussian blur,
brightness, contrast, pixelation, JPEG, saturation) follows the same arithmetic, cutting fractions
of a gray level off as the official files do.

Two things differ on purpose: frost is drawn (``panes``) where the original blends
photographs, and motion blur adds up shifted images, as ImageMagick does, without needing it.
Filters, warps, color spaces and JPEG are OpenCV's, pixelation is Pillow's (as in the original).
Albumentations' namesakes are not used: their defocus knows whole radii only, and their spatter has
been reworked.

An image's corruption depends on the seed, the corruption, the severity and the image's index in the
test set alone, never on how many images are worked on at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image

from fedseg.datasets.corrupted import CORRUPTIONS

from .corruption_parts import (
    SIZE,
    Array,
    Draws,
    blurred,
    each,
    in_hsv,
    normal,
    panes,
    plasma,
    streaked,
    to_uint8,
    to_unit,
    zoomed,
)

VERSION = 2  # goes up when corrupted images of the same seed change


def corrupt(
    images: Array, name: str, severity: int, indices: Sequence[int] | None = None, seed: int = 0
) -> Array:
    """Images under one corruption.

    Args:
        images: uint8 [n, 32, 32, 3] RGB.
        severity: 1 to 5.
        indices: of the images in the test set; 0 to n - 1 by default.

    Returns:
        uint8 [n, 32, 32, 3], a new array.
    """
    draws = Draws(seed, name, severity, range(len(images)) if indices is None else indices)
    function = _CORRUPTIONS[name]
    return function(np.ascontiguousarray(images), draws, *_PARAMETERS[function][severity - 1])


# ---- noise


def gaussian_noise(images: Array, draws: Draws, std: float) -> Array:
    """Adds normal noise; ``std`` of the full range."""
    return to_uint8(to_unit(images) + np.float32(std) * normal(images.shape, draws))


def shot_noise(images: Array, draws: Draws, photons: float) -> Array:
    """Poisson noise of a sensor that counts ``photons`` where the image is white."""
    expected = to_unit(images) * np.float32(photons)
    counts = [rng.poisson(image) for rng, image in zip(draws, expected, strict=True)]
    return to_uint8(np.stack(counts).astype(np.float32) / np.float32(photons))


def impulse_noise(images: Array, draws: Draws, share: float) -> Array:
    """Salt and pepper: a share of all values is set to 0 or 255, each half of the time."""
    chance = np.stack([rng.random(images.shape[1:], np.float32) for rng in draws])
    pepper, salt = chance < share / 2, chance >= 1 - share / 2
    return np.where(salt, np.uint8(255), np.where(pepper, np.uint8(0), images))


def speckle_noise(images: Array, draws: Draws, std: float) -> Array:
    """Normal noise in proportion to the value."""
    clean = to_unit(images)
    return to_uint8(clean + clean * (np.float32(std) * normal(images.shape, draws)))


# ---- blur


def gaussian_blur(images: Array, draws: Draws, sigma: float) -> Array:
    """Gaussian of ``sigma`` pixels, cut at four of them."""
    return to_uint8(blurred(to_unit(images), sigma))


def defocus_blur(images: Array, draws: Draws, radius: float, alias_blur: float) -> Array:
    """A disc of ``radius`` pixels whose edge is softened by a 3x3 Gaussian of ``alias_blur``."""
    reach = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = (x**2 + y**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disc / disc.sum(), (3, 3), alias_blur, borderType=cv2.BORDER_CONSTANT)
    return to_uint8(each(to_unit(images), lambda image: cv2.filter2D(image, -1, kernel)))


def glass_blur(images: Array, draws: Draws, sigma: float, reach: int, times: int) -> Array:
    """Pixels wander: blurred, ``times`` shuffled locally, blurred again.

    A pixel takes the value found up to ``reach`` rows above and columns left of it. (The paper
    describes swapping the two; the original script copies, and so did the official files.)
    """
    n, height, width, _ = images.shape
    start = reach + 1  # the first rows and columns stay
    size = (times, height - start, width - start, 2)
    shift = np.stack([rng.integers(-reach, reach, size) for rng in draws])
    image = np.arange(n)[:, None, None]
    row = np.arange(start, height)[:, None]
    column = np.arange(start, width)
    wandering = to_uint8(blurred(to_unit(images), sigma))
    for time in range(times):
        above, aside = row + shift[:, time, ..., 0], column + shift[:, time, ..., 1]
        pixels = wandering.reshape(-1, 3)
        wandering[:, start:, start:] = pixels.take((image * height + above) * width + aside, 0)
    return to_uint8(blurred(to_unit(wandering), sigma))


def motion_blur(images: Array, draws: Draws, radius: int, sigma: float) -> Array:
    """A streak to one side, at an angle within 45 degrees of the horizontal."""
    angles = np.array([rng.uniform(-45, 45) for rng in draws])
    moved = streaked(images.astype(np.float32), radius, sigma, angles)
    return np.rint(np.clip(moved, 0, 255)).astype(np.uint8)


def zoom_blur(images: Array, draws: Draws, furthest: float) -> Array:
    """The mean of the image and of its enlargements by 1, 1.01, ... up to ``furthest``."""
    clean = np.ascontiguousarray(to_unit(images).transpose(1, 2, 3, 0))
    views = [clean, *(zoomed(clean, float(factor)) for factor in np.arange(1, furthest, 0.01))]
    mean = to_uint8(sum(views[1:], views[0]) / np.float32(len(views)))
    return np.ascontiguousarray(mean.transpose(3, 0, 1, 2))


# ---- weather


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
        mean, std: of the noise.
        zoom: how large flakes are.
        threshold: noise below it is no flake.
        radius, sigma: of the streak, pixels.
        clear: weight of the image against its pale version.
    """
    noise = np.float32(mean) + np.float32(std) * normal(images.shape[:3], draws)
    noise = zoomed(noise.transpose(1, 2, 0), zoom).transpose(2, 0, 1)
    flakes = to_uint8(np.where(noise < threshold, 0, noise)).astype(np.float32)
    # An own purpose: the noise above has used up the generators' first numbers.
    winds = Draws(draws.seed, f"{draws.name} wind", draws.severity, draws.indices)
    angles = np.array([rng.uniform(-135, -45) for rng in winds])
    flakes = np.rint(streaked(flakes[..., None], radius, sigma, angles)) / np.float32(255)
    clean = to_unit(images)
    gray = each(clean, lambda image: cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[..., None]
    pale = np.maximum(clean, gray * np.float32(1.5) + np.float32(0.5))
    dimmed = np.float32(clear) * clean + np.float32(1 - clear) * pale
    return to_uint8(dimmed + flakes + flakes[:, ::-1, ::-1])


def frost(images: Array, draws: Draws, weight: float, ice: float) -> Array:
    """``weight`` times the image plus ``ice`` times a random piece of a random frosted pane."""
    frosted = panes(draws.seed)
    pieces = np.empty(images.shape, np.float32)
    for piece, rng in zip(pieces, draws, strict=True):
        which = rng.integers(len(frosted))
        y, x = rng.integers(0, frosted.shape[1] - SIZE, 2)
        piece[:] = frosted[which, y : y + SIZE, x : x + SIZE]
    return to_uint8((np.float32(weight) * images + np.float32(ice) * pieces) / np.float32(255))


def fog(images: Array, draws: Draws, density: float, decay: float) -> Array:
    """Adds a plasma fractal, then scales back to the image's own brightest value."""
    clean = to_unit(images)
    brightest = clean.max((1, 2, 3), keepdims=True)
    foggy = clean + np.float32(density) * plasma(draws, decay)[..., None]
    return to_uint8(foggy * brightest / (brightest + np.float32(density)))


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
        mean, std: of the noise.
        sigma: of its blur, pixels.
        threshold: noise below it stays dry.
        strength: of water: how bright; of mud: the blur of its edge, pixels.
        mud: which of the two.
    """
    noise = np.float32(mean) + np.float32(std) * normal(images.shape[:3], draws)
    liquid = blurred(noise, sigma)
    liquid[liquid < threshold] = 0
    clean = to_unit(images)
    if mud:
        cover = blurred((liquid > threshold).astype(np.float32), strength)[..., None]
        cover[cover < 0.8] = 0
        brown = np.float32((63, 42, 20)) / np.float32(255)
        return to_uint8(clean * (1 - cover) + brown * cover)
    shine = each(to_uint8(liquid), _shine)
    highest = shine.max((1, 2), keepdims=True)
    shine = shine / np.where(highest > 0, highest, 1)  # an image without a drop stays as it is
    turquoise = np.float32((175, 238, 238)) / np.float32(255)
    return to_uint8(clean + np.float32(strength) * shine[..., None] * turquoise)


def _shine(liquid: Array) -> Array:
    """The light in drops of a depth, uint8 [H, W]: embossed distance to their edges."""
    edges = 255 - cv2.Canny(liquid, 50, 150)
    distance = np.minimum(cv2.distanceTransform(edges, cv2.DIST_L2, 5), 20)
    distance = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    emboss = np.float32([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    relief = cv2.blur(cv2.filter2D(distance, cv2.CV_8U, emboss), (3, 3))
    return liquid.astype(np.float32) * relief


# ---- digital


def brightness(images: Array, draws: Draws, more: float) -> Array:
    """Adds to the value in HSV."""
    return in_hsv(images, 2, 1, more)


def saturate(images: Array, draws: Draws, gain: float, more: float) -> Array:
    """Scales the saturation in HSV and adds to it; the two mildest severities wash colors out."""
    return in_hsv(images, 1, gain, more)


def contrast(images: Array, draws: Draws, gain: float) -> Array:
    """Shrinks the distance of every value to its channel's mean over the image."""
    # Whole numbers: their sum has no rounding that could depend on the order.
    mean = images.sum((1, 2), dtype=np.int64, keepdims=True) / (SIZE * SIZE * 255)
    return to_uint8((to_unit(images) - mean) * gain + mean)


def elastic_transform(
    images: Array, draws: Draws, strength: float, sigma: float, jitter: float
) -> Array:
    """A random affine map, then every pixel moves by smooth noise.

    Args:
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
    for out, image, rng in zip(moved, to_unit(images), draws, strict=True):
        to = points + np.float32(rng.uniform(-jitter, jitter, points.shape))
        affine = cv2.getAffineTransform(points, to)
        out[:] = cv2.warpAffine(image, affine, (SIZE, SIZE), borderMode=cv2.BORDER_REFLECT_101)
        if strength:
            field = np.float32(rng.uniform(-1, 1, (2, SIZE, SIZE)))
            dx, dy = blurred(field, sigma, cut=3, border=cv2.BORDER_REFLECT) * np.float32(strength)
            where = x + dx, y + dy
            out[:] = cv2.remap(out, *where, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return to_uint8(moved)


def pixelate(images: Array, draws: Draws, scale: float) -> Array:
    """Shrinks by box averaging and enlarges again."""
    small = (int(SIZE * scale), int(SIZE * scale))

    def through(image: Array) -> Array:
        shrunk = Image.fromarray(image).resize(small, Image.Resampling.BOX)
        return np.asarray(shrunk.resize((SIZE, SIZE), Image.Resampling.BOX))

    return each(images, through)


def jpeg_compression(images: Array, draws: Draws, quality: int) -> Array:
    """Through a JPEG file of this quality, colors at half resolution as is usual."""

    options = (cv2.IMWRITE_JPEG_QUALITY, quality)
    options += (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420)

    def through(image: Array) -> Array:
        _, file = cv2.imencode(".jpg", image, options)
        return cv2.imdecode(file, cv2.IMREAD_COLOR)

    return each(images[..., ::-1], through)[..., ::-1].copy()  # OpenCV's files hold BGR


# ---- severities

# By severity, 1 to 5.
_PARAMETERS: dict[Callable[..., Array], tuple[tuple[Any, ...], ...]] = {
    gaussian_noise: ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    shot_noise: ((500,), (250,), (100,), (75,), (50,)),
    impulse_noise: ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    defocus_blur: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    glass_blur: ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    motion_blur: ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    zoom_blur: ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,)),
    snow: (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    frost: ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    fog: ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    brightness: ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
    contrast: ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    elastic_transform: (
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ),
    pixelate: ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    jpeg_compression: ((80,), (65,), (58,), (50,), (40,)),
    speckle_noise: ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)),
    gaussian_blur: ((0.4,), (0.6,), (0.7,), (0.8,), (1,)),
    spatter: (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
    saturate: ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}
_CORRUPTIONS = {function.__name__: function for function in _PARAMETERS}
assert tuple(_CORRUPTIONS) == CORRUPTIONS
