"""Synthetic fundus photographs: the region around the optic disc, as four cameras show it.

A photograph shows the retina with the vessels that leave the optic disc, the disc, and the cup
inside it. Anatomy differs from image to image, color, sharpness and light from camera to camera:
what a federated method has to learn and what it must not depend on.

An image depends on its camera, its part and its number alone.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import INDEX
from fedseg.errors import DataError
from fedseg.files import atomic_writer, write_text

CUP, RIM, BACKGROUND = 0, 128, 255  # values of a mask, as in the published ones
COUNTS = {"train": 40, "test": 16}  # photographs of each site
VERSION = 1  # goes up when the same name shows another image
VESSELS = 7
SHIFT = 4  # bits after the point, of coordinates in cv2's drawing functions


@dataclass(frozen=True)
class Camera:
    """How a camera shows an eye. Colors are [r, g, b] of 0 to 255."""

    retina: tuple[int, int, int]
    disc: tuple[int, int, int]
    cup: tuple[int, int, int]
    vessel: tuple[int, int, int]
    blur: float  # standard deviation, in hundredths of the image's side
    noise: float  # standard deviation of a pixel
    shade: float  # share of the light that is missing in the corners


CAMERAS = {
    "Domain1": Camera((196, 92, 40), (246, 188, 112), (255, 232, 176), (134, 42, 22), 0.6, 4, 0.35),
    "Domain2": Camera((158, 62, 48), (216, 142, 108), (242, 196, 160), (96, 22, 26), 1.2, 7, 0.15),
    "Domain3": Camera((120, 74, 34), (196, 168, 96), (228, 216, 160), (70, 34, 16), 0.8, 3, 0.5),
    "Domain4": Camera((182, 112, 66), (238, 190, 130), (252, 228, 184), (146, 58, 40), 0.4, 8, 0.2),
}


def draw_sites(root: Path, size: int) -> None:
    """Draw photographs and masks below a root, in the layout of the published ones.

    Those of all sites are there or none are.

    Args:
        size: height and width, pixels.

    Raises:
        DataError: the folder has other photographs.
    """
    index = {"dataset": "fundus", "synthetic": True, "renderer_version": VERSION, "size": size}
    text = json.dumps(index, indent=2) + "\n"
    path = root / INDEX
    if any((root / camera).exists() for camera in CAMERAS):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise DataError(f"{root}: has other photographs: name another folder with --root.")
        return
    write_text(path, text)
    for camera in CAMERAS:
        for part, count in COUNTS.items():
            folder = root / camera / part / "ROIs"
            for number in range(count):
                photograph, mask = draw_fundus(camera, part, number, size)
                _write_png(folder / "mask" / f"{number:03d}.png", mask)
                _write_png(folder / "image" / f"{number:03d}.png", photograph[..., ::-1])


def draw_fundus(camera: str, part: str, number: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a photograph, uint8 [size, size, 3] RGB, and its mask, uint8 [size, size]."""
    rng = generator_for(0, f"fundus {camera} {part}", number)
    look = CAMERAS[camera]
    center = size * rng.uniform(0.4, 0.6, 2)
    disc = size * rng.uniform(0.2, 0.28) * np.array([rng.uniform(0.86, 1.0), 1.0])
    cup = disc * rng.uniform(0.35, 0.75) * np.array([1.0, rng.uniform(0.95, 1.12)])
    cup_center = center + (disc - cup) * rng.uniform(-0.35, 0.35, 2)

    picture = np.empty((size, size, 3), np.float32)
    picture[:] = look.retina
    picture *= _texture(rng, size)[..., None]
    _blend(picture, _ellipse(size, center, 1.15 * disc, blur=0.08 * size), look.disc, 0.45)
    _blend(picture, _ellipse(size, center, disc, blur=0.012 * size), look.disc, 0.95)
    _blend(picture, _ellipse(size, cup_center, cup, blur=0.02 * size), look.cup, 0.9)
    _blend(picture, _vessels(rng, size, cup_center, cup), look.vessel, 0.75)
    picture *= _light(rng, size, look.shade)[..., None]
    picture = cv2.GaussianBlur(picture, (0, 0), look.blur * size / 100)
    picture += rng.normal(0, look.noise, picture.shape)

    mask = np.full((size, size), BACKGROUND, np.uint8)
    mask[_ellipse(size, center, disc) > 0.5] = RIM
    mask[_ellipse(size, cup_center, cup) > 0.5] = CUP
    return picture.clip(0, 255).astype(np.uint8), mask


def _ellipse(size: int, center: np.ndarray, axes: np.ndarray, blur: float = 0) -> np.ndarray:
    """A filled ellipse with upright axes [x, y], float32 [size, size] of 0 to 1."""
    canvas = np.zeros((size, size), np.float32)
    fixed_center = tuple(int(value * 2**SHIFT) for value in center)
    fixed_axes = tuple(int(value * 2**SHIFT) for value in axes)
    cv2.ellipse(canvas, fixed_center, fixed_axes, 0, 0, 360, 1.0, -1, cv2.LINE_8, SHIFT)
    return cv2.GaussianBlur(canvas, (0, 0), blur) if blur else canvas


def _vessels(
    rng: np.random.Generator, size: int, cup_center: np.ndarray, cup: np.ndarray
) -> np.ndarray:
    """Vessels that leave the cup's rim upwards and downwards and bend away, float32 of 0 to 1."""
    canvas = np.zeros((size, size), np.uint8)
    steps = np.linspace(0, 1, 24)
    for number in range(VESSELS):
        upward = -1 if number % 2 else 1
        angle = upward * np.pi / 2 + rng.normal(0, 0.5)
        begin = cup_center + 0.6 * cup * [np.cos(angle), np.sin(angle)]
        bend = rng.normal(0, 0.9)
        directions = angle + bend * steps
        path = np.stack([np.cos(directions), np.sin(directions)], axis=1)
        points = begin + np.cumsum(path, axis=0) * size * 0.035
        thickness = max(1, round(size * rng.uniform(0.008, 0.022)))
        fixed = np.round(points * 2**SHIFT).astype(np.int32)
        cv2.polylines(canvas, [fixed], False, 255, thickness, cv2.LINE_AA, SHIFT)
    return canvas.astype(np.float32) / 255


def _texture(rng: np.random.Generator, size: int) -> np.ndarray:
    """Uneven brightness of the retina, float32 [size, size] around 1."""
    coarse = rng.normal(1, 0.06, (8, 8)).astype(np.float32)
    return cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)


def _light(rng: np.random.Generator, size: int, shade: float) -> np.ndarray:
    """Light that falls off from a bright point near the middle, float32 [size, size]."""
    place = np.linspace(-1, 1, size, dtype=np.float32)
    x, y = place - rng.normal(0, 0.2), place[:, None] - rng.normal(0, 0.2)
    brightness = rng.uniform(0.85, 1.1)
    return brightness * (1 - shade * np.clip((x**2 + y**2) / 2, 0, 1))


def _blend(picture: np.ndarray, share: np.ndarray, color: Sequence[int], most: float) -> None:
    """Cover a picture with a color, where ``share`` is 1 by the share ``most``."""
    weight = most * share[..., None]
    picture *= 1 - weight
    picture += weight * np.array(color, np.float32)


def _write_png(path: Path, pixels: np.ndarray) -> None:
    _, data = cv2.imencode(".png", pixels)
    with atomic_writer(path, "wb") as file:
        file.write(data.tobytes())
