"""The ego vehicle's hood or dashboard at the lower edge of the picture."""

import numpy as np

from . import ids
from .canvas import Canvas
from .keys import draws
from .light import Light

# Outlines over the picture's width: (column as a share, height as a share of the picture).
_OUTLINES = {
    "round": [(0.10, 0.0), (0.16, 0.035), (0.28, 0.06), (0.5, 0.068),
              (0.72, 0.06), (0.84, 0.035), (0.90, 0.0)],
    "dashboard": [(0.0, 0.0), (0.0, 0.045), (0.5, 0.03), (1.0, 0.045), (1.0, 0.0)],
    "box": [(0.06, 0.0), (0.08, 0.095), (0.18, 0.105), (0.5, 0.11),
            (0.82, 0.105), (0.92, 0.095), (0.94, 0.0)],
    "long": [(0.02, 0.0), (0.12, 0.09), (0.27, 0.145), (0.5, 0.155),
             (0.73, 0.145), (0.88, 0.09), (0.98, 0.0)],
    "short": [(0.0, 0.0), (0.0, 0.02), (0.3, 0.052), (0.7, 0.052), (1.0, 0.02), (1.0, 0.0)],
}  # fmt: skip
_COLOURS = {
    "round": (150, 154, 160),
    "dashboard": (46, 46, 48),
    "box": (72, 84, 64),
    "long": (44, 56, 98),
    "short": (206, 204, 196),
}


def paint_hood(canvas: Canvas, kind: str, light: Light, *key: object) -> None:
    """Paint the hood; it mirrors a little of the sky towards its far edge."""
    rng = draws("hood", *key)
    width, height = canvas.camera.width, canvas.camera.height
    lift = rng.uniform(0.9, 1.1)
    outline = np.array([(u * width, height - v * lift * height) for u, v in _OUTLINES[kind]])
    gain = light.gain((0.0, 1.0, 0.0))
    base = np.array(_COLOURS[kind]) * gain
    sky = np.array(light.horizon) * 0.8
    for step in range(5):
        share = 0.5 * (1 - step / 5) ** 2
        colour = tuple(np.clip(base * (1 - share) + sky * share, 0, 255))
        layer = outline.copy()
        layer[:, 1] = height - (height - layer[:, 1]) * (1 - 0.16 * step)
        layer[0, 1] = layer[-1, 1] = height + 1
        canvas.polygon(layer, colour, ids.OWN_CAR)
    if kind == "long":
        top = outline[:, 1].min() + 1
        for centre in (0.465, 0.535):
            stripe = np.array(
                [
                    ((centre - 0.014) * width, top),
                    ((centre + 0.014) * width, top),
                    ((centre + 0.024) * width, height + 1),
                    ((centre - 0.024) * width, height + 1),
                ]
            )
            canvas.polygon(
                stripe, tuple(np.clip(np.array((206, 204, 198)) * gain, 0, 255)), ids.OWN_CAR
            )
    if kind == "box":
        for left in (0.06, 0.86):
            top = height - 0.135 * lift * height
            fender = np.array(
                [
                    (left * width, top),
                    ((left + 0.08) * width, top),
                    ((left + 0.085) * width, height + 1),
                    ((left - 0.005) * width, height + 1),
                ]
            )
            canvas.polygon(fender, tuple(np.clip(base * 0.85, 0, 255)), ids.OWN_CAR)
    mask = canvas.pixels[..., 3] == ids.OWN_CAR
    canvas.depth[mask] = 1.0
