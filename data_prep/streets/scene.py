"""One rendered street scene: a pure function of its arguments."""

import math

import numpy as np

from . import ids
from .backdrop import paint_sky, paint_skyline
from .camera import VIEWPOINTS, Camera
from .canvas import Canvas
from .ground import paint_ground
from .hood import paint_hood
from .keys import draws
from .layout import Street, lay_out
from .light import WEATHERS, light_for
from .objects import paint_street
from .towns import TOWNS, town_materials
from .weather import develop, expose


def render_scene(
    seed: int, town: int, weather: str, viewpoint: str, size: tuple[int, int] = (464, 256)
) -> tuple[np.ndarray, np.ndarray]:
    """Render a street scene with IDDA's raw label ids.

    The same seed, town and size show the same street in every weather.

    Args:
        seed: any integer.
        town: 1 to 7.
        weather: ``CN`` (clear noon), ``CS`` (clear sunset) or ``HRN`` (hard rain at noon).
        viewpoint: ``A``, ``B`` (bus), ``J``, ``M`` or ``V``.
        size: width and height in pixels.

    Returns:
        Image uint8 [H, W, 3] (RGB) and labels uint8 [H, W].

    Raises:
        ValueError: an argument is outside its range.
    """
    image, labels = render(seed, town, weather, viewpoint, size)
    return image, ids.TO_IDDA[labels]


def render(
    seed: int, town: int, weather: str, viewpoint: str, size: tuple[int, int], variant: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Like :func:`render_scene`, with the renderer's own ids and the town's variant to choose."""
    if town not in TOWNS or weather not in WEATHERS or viewpoint not in VIEWPOINTS:
        raise ValueError(
            f"town {town!r}, weather {weather!r}, viewpoint {viewpoint!r}: expected a town of"
            f" 1 to 7, a weather of {', '.join(WEATHERS)}, a viewpoint of {', '.join(VIEWPOINTS)}"
        )
    if min(size) < 32:
        raise ValueError(f"size {size}: both sides must be at least 32 pixels")
    materials = town_materials(town, variant)
    street = lay_out(materials, seed, town, variant)
    light = light_for(weather, seed)
    camera = _camera(street, seed, viewpoint, size)
    canvas = Canvas(camera)
    paint_sky(canvas, light, seed)
    paint_skyline(canvas, materials, light, seed)
    paint_ground(canvas, materials, street, light, seed)
    paint_street(canvas, street, light)
    paint_hood(canvas, VIEWPOINTS[viewpoint].hood, light, seed)
    image = expose(canvas, light, seed)
    return develop(image, light, seed), canvas.pixels[..., 3].copy()


def _camera(street: Street, seed: int, viewpoint: str, size: tuple[int, int]) -> Camera:
    """The viewpoint's camera in the right-hand lane, shaken a little."""
    rng = draws("camera", seed, viewpoint)
    view = VIEWPOINTS[viewpoint]
    lane = 0.0 if street.one_way else street.lane_width / 2
    return Camera(
        width=size[0],
        height=size[1],
        focal=size[0] / 2 / math.tan(math.radians(view.field_of_view / 2)),
        eye=view.height * rng.uniform(0.95, 1.05),
        pitch=math.radians(view.pitch + rng.gauss(0, 0.8)),
        position=lane + view.lateral + rng.gauss(0, 0.25),
        slope=street.slope,
        bend=street.bend,
    )
