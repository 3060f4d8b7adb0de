"""What air, water and lens add to the finished picture."""

from functools import lru_cache

import cv2
import numpy as np

from . import ids
from .canvas import Canvas
from .keys import arrays, draws
from .light import Light
from .textures import noise_at


def expose(canvas: Canvas, light: Light, *key: object) -> np.ndarray:
    """The picture a camera takes of the painted canvas: uint8 [H, W, 3]."""
    rng = draws("weather", *key)
    if light.wet:
        _reflect(canvas, rng)
    # Air: the farther, the more of the fog's color.
    clear = cv2.exp(canvas.depth * np.float32(-light.fog))
    sky = canvas.pixels[..., 3] == ids.SKY
    # An overcast sky is about as bright as the fog; a clear one is painted with its haze.
    np.maximum(clear, 0.55 if light.wet else 1.0, out=clear, where=sky)
    painted = cv2.cvtColor(canvas.pixels, cv2.COLOR_RGBA2RGB)
    fog = np.full_like(painted, np.rint(light.fog_colour).astype(np.uint8))
    image = cv2.blendLinear(painted, fog, clear, 1 - clear)
    _halos(image, canvas, light)
    return image


def develop(image: np.ndarray, light: Light, *key: object) -> np.ndarray:
    """Rain before the lens, softness, tone, grain, drops on the glass: uint8 [H, W, 3]."""
    rng = draws("develop", *key)
    height, width = image.shape[:2]
    if light.wet:
        image = cv2.add(image, _streaks(height, width, rng.uniform(0.7, 1.25), rng))
        image = cv2.GaussianBlur(image, (0, 0), height / 330)
        contrast, pale = rng.uniform(0.74, 0.90), 0.25
        offset = rng.uniform(98, 110) - 118 * contrast
    else:
        image = cv2.GaussianBlur(image, (3, 3), 0.55)
        exposure, pale = rng.uniform(0.93, 1.07), 0.0
        contrast, offset = 1.08 * exposure, (-7 if light.weather == "CS" else -4) * exposure
    # Contrast, offset, and a share of every channel's color given up for gray.
    mix = contrast * ((1 - pale) * np.eye(3) + pale * np.array((0.299, 0.587, 0.114)))
    toned = cv2.transform(image, np.column_stack([mix, np.full(3, offset)]))
    top, left = rng.randrange(256), rng.randrange(256)
    strength = np.float32(3.0 if light.wet else 1.8)
    grain = _grain(height, width)[top : top + height, left : left + width] * strength
    vignette = _vignette(height, width)
    planes = [plane * vignette + grain for plane in cv2.split(toned)]
    image = np.clip(cv2.merge(planes), 0, 255).astype(np.uint8)
    if light.wet:
        _drops(image, rng)
    return image


@lru_cache(maxsize=2)
def _grain(height: int, width: int) -> np.ndarray:
    """Sensor noise, 256 pixels larger than the picture either way."""
    size = (height + 256, width + 256)
    return arrays("grain").standard_normal(size).astype(np.float16).astype(np.float32)


@lru_cache(maxsize=4)
def _vignette(height: int, width: int) -> np.ndarray:
    v, u = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)[None]
    return (1 - 0.09 * (u**2 + v**2)).astype(np.float32)


def _reflect(canvas: Canvas, rng) -> None:
    """Mirror what stands above the wet ground in it, column by column.

    Every wet pixel finds the lowest dry pixel above it in its column, where whatever is mirrored
    meets the ground, and looks as far above that as it lies below.
    """
    first, z, s, depth = canvas.camera.ground
    label = canvas.pixels[first:, :, 3]
    wet = (label == ids.ROAD) | (label == ids.ROAD_LINE) | (label == ids.SIDEWALK)
    height, width = label.shape
    rows = np.arange(height, dtype=np.int32)[:, None]
    contact = np.maximum.accumulate(np.where(wet | (label == ids.TERRAIN), -1, rows), axis=0)
    contact = contact + first
    below = rows + first - contact
    shift = (rng.randrange(4096), rng.randrange(4096))
    i, k = (s * 20).astype(np.int32) + shift[0], (z * 7).astype(np.int32) + shift[1]
    ripple = noise_at(32, 4, "ripple", i, k)
    i, k = (s * 6).astype(np.int32) + shift[1], (z * 3).astype(np.int32) + shift[0]
    puddle = noise_at(8, 5, "puddles", i, k)
    below = below.astype(np.float32)
    sway = np.minimum(below * 0.05, height / 40) * ripple
    source_v = contact.astype(np.float32) - below * 0.95 + sway * 1.5
    source_u = np.arange(width, dtype=np.float32)[None] + sway * 0.7
    mirror = cv2.cvtColor(canvas.pixels, cv2.COLOR_RGBA2RGB)
    mirror = cv2.blur(mirror, (1, max(height // 16, 1)))
    seen = cv2.remap(
        mirror,
        source_u.astype(np.float32),
        np.maximum(source_v, 0).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    # Water mirrors more at grazing angles, and where it stands.
    grazing = 0.24 + 0.62 * np.exp(-4.0 * canvas.camera.eye / depth)
    standing = np.clip(0.66 + 0.36 * puddle, 0.25, 1.3)
    mirroring = np.zeros(256, np.float32)
    mirroring[[ids.ROAD, ids.ROAD_LINE]] = 1
    mirroring[ids.SIDEWALK] = 0.62
    share = np.minimum(grazing * standing, 0.85) * mirroring.take(label)
    region = canvas.pixels[first:]
    dark = np.float32(0.86) - np.float32(0.16) * wet
    ground = cv2.cvtColor(region, cv2.COLOR_RGBA2RGB)
    # blendLinear divides by the sum of its weights, which is less than one on dark ground.
    dry = (1 - share) * dark
    mixed = cv2.blendLinear(ground, seen, dry, share)
    mixed = cv2.multiply(mixed, cv2.cvtColor(dry + share, cv2.COLOR_GRAY2RGB), dtype=cv2.CV_8U)
    region[..., :3] = mixed


@lru_cache(maxsize=2)
def _halo() -> np.ndarray:
    axis = np.linspace(-1, 1, 65)
    distance = np.sqrt(axis[:, None] ** 2 + axis[None] ** 2)
    glow = np.exp(-distance * 5) * np.clip(1 - distance, 0, 1)
    return glow.astype(np.float32)


def _halos(image: np.ndarray, canvas: Canvas, light: Light) -> None:
    """Lamps glow: widely in rain, hardly in clear air."""
    height, width = image.shape[:2]
    metres, strength = (0.85, 0.75) if light.wet else (0.3, 0.3)
    for u, v, depth, colour in canvas.lamps:
        if not (0 <= u < width and 0 <= v < height) or canvas.depth[int(v), int(u)] < depth - 1.5:
            continue
        radius = int(np.clip(metres * canvas.camera.focal / depth + height / 70, 2, height / 6))
        u0, v0 = int(u) - radius, int(v) - radius
        glow = cv2.resize(_halo(), (2 * radius + 1, 2 * radius + 1), interpolation=cv2.INTER_AREA)
        a, b = max(-u0, 0), max(-v0, 0)
        region = image[max(v0, 0) : v0 + 2 * radius + 1, max(u0, 0) : u0 + 2 * radius + 1]
        part = glow[b : b + region.shape[0], a : a + region.shape[1]]
        shine = part[..., None] * (np.array(colour, np.float32) * strength)
        region[:] = np.minimum(region + shine, 255)


@lru_cache(maxsize=4)
def _rain(kind: int) -> np.ndarray:
    """Streaks of falling drops, uint8 [1024, 1024]; larger kinds are nearer the lens."""
    rng = arrays("rain", kind)
    image = np.zeros((1024, 1024), np.uint8)
    count, length, thickness = ((2600, 16, 1), (900, 34, 1), (150, 64, 2))[kind]
    for x, y, size, light in rng.uniform(0, 1, (count, 4)):
        reach = length * (0.6 + 0.8 * size)
        start = (int(x * 1024), int(y * 1024))
        end = (int(start[0] + reach * 0.12), int(start[1] + reach))
        cv2.line(image, start, end, int(90 + 165 * light), thickness, cv2.LINE_AA)
    return cv2.GaussianBlur(image, (0, 0), (0.5, 0.6, 1.3)[kind])


def _streaks(height: int, width: int, amount: float, rng) -> np.ndarray:
    """Light of the drops in the air: uint8 [H, W, 3]."""
    scale = max(height / 300, 0.5)
    total = np.zeros((height, width), np.uint8)
    for kind, strength in enumerate((30, 40, 34)):
        field = _rain(kind)
        tall, wide = min(int(height / scale) + 1, 640), min(int(width / scale) + 1, 1024)
        y, x = rng.randrange(1024 - tall + 1), rng.randrange(1024 - wide + 1)
        part = cv2.resize(field[y : y + tall, x : x + wide], (width, height))
        total = cv2.addWeighted(total, 1, part, strength * amount / 255, 0)
    return cv2.cvtColor(total, cv2.COLOR_GRAY2RGB)


@lru_cache(maxsize=64)
def _bead(radius: int) -> tuple[np.ndarray, np.ndarray]:
    """Opacity and shading of one drop on the lens."""
    axis = np.linspace(-1, 1, 2 * radius + 1)
    distance = np.sqrt(axis[:, None] ** 2 + axis[None] ** 2)
    opacity = np.clip((1 - distance) * 3, 0, 1)[..., None].astype(np.float32)
    shade = 1.06 + 0.28 * axis[:, None] - 0.3 * np.clip(distance - 0.6, 0, 1)
    return opacity, np.broadcast_to(shade, distance.shape)[..., None].astype(np.float32)


def _drops(image: np.ndarray, rng) -> None:
    """Drops on the glass show the scene small and upside down."""
    height, width = image.shape[:2]
    for _ in range(rng.randrange(3, 13)):
        radius = max(int(height * rng.uniform(0.008, 0.034) * (1 + 0.6 * (rng.random() < 0.15))), 2)
        u, v = rng.randrange(width), rng.randrange(height)
        wide = 4 * radius
        around = image[max(v - wide, 0) : v + wide, max(u - wide, 0) : u + wide]
        if min(around.shape[:2]) < 4:
            continue
        size = 2 * radius + 1
        seen = cv2.flip(cv2.resize(around, (size, size), interpolation=cv2.INTER_AREA), -1)
        opacity, shade = _bead(radius)
        u0, v0 = u - radius, v - radius
        region = image[max(v0, 0) : v0 + size, max(u0, 0) : u0 + size]
        cut = (
            slice(max(-v0, 0), max(-v0, 0) + region.shape[0]),
            slice(max(-u0, 0), max(-u0, 0) + region.shape[1]),
        )
        drop = np.clip(seen[cut] * shade[cut], 0, 255)
        region[:] = region + (drop - region) * opacity[cut] * 0.8
