"""Sky, clouds, and what closes the view at the horizon."""

import math

import cv2
import numpy as np

from . import ids
from .canvas import Canvas
from .keys import arrays, draws
from .light import Light
from .textures import clouds, noise_at
from .towns import Town


def paint_sky(canvas: Canvas, light: Light, *key: object) -> None:
    """Gradient, sun and clouds down to just below the horizon."""
    rng = draws("sky", *key)
    width, horizon = canvas.camera.width, canvas.camera.horizon
    rows = int(np.clip(math.ceil(horizon) + 2, 1, canvas.camera.height))
    height = np.clip(1 - np.arange(rows) / max(horizon, 1), 0, 1)[:, None] ** 0.75
    height = height.astype(np.float32)
    # Scale by the field of view: a low camera that looks up sees more of the zenith.
    span = min(horizon / canvas.camera.focal * 1.25, 1.0)
    if light.weather == "CS":
        span = min(1.6 * span, 1.0)  # the glow stays low
    share = np.clip(height * np.float32(span), 0, 1)[..., None]
    low, high = np.array(light.horizon, np.float32), np.array(light.zenith, np.float32)
    sky = np.repeat(low + (high - low) * share, width, axis=1)
    if light.shadows:
        sky += _sun_glow(canvas, light, rows)
    density = clouds()
    left, top = rng.randrange(1024), rng.randrange(0, 190)
    deep = int(120 + 200 * span)
    crop = density[top : top + deep, left : left + 640]
    # Clouds shrink towards the horizon.
    line = np.linspace(0, 1, rows, dtype=np.float32)
    lines = (0.45 * line + 0.55 * line**4) * (deep - 1)
    columns = np.linspace(0, 639, width, dtype=np.float32)
    field = cv2.remap(
        crop,
        np.broadcast_to(columns, (rows, width)).copy(),
        np.repeat(lines[:, None], width, axis=1),
        cv2.INTER_LINEAR,
    )
    threshold = 1 - light.cover
    alpha = np.clip((field - threshold * 0.85) / 0.28, 0, 1)
    if light.wet:
        alpha = np.clip((field - 0.3) * 1.6, 0, 0.85)
    alpha *= np.clip(height * 3.5, 0.15, 1)
    tone = 0.86 + 0.2 * field
    for channel in range(3):
        plane = sky[..., channel]
        plane += (tone * np.float32(light.cloud[channel]) - plane) * alpha
        canvas.pixels[:rows, :, channel] = np.minimum(plane, 255)
    canvas.pixels[:, :, 3] = ids.SKY


def _sun_glow(canvas: Canvas, light: Light, rows: int) -> np.ndarray:
    """Light around the sun where the camera sees it."""
    camera = canvas.camera
    x, y, z = light.towards
    if z < 0.15:
        return np.zeros((rows, camera.width, 3), np.float32)
    u = camera.width / 2 + camera.focal * x / z
    v = camera.horizon - camera.focal * y / z
    columns = (np.arange(camera.width, dtype=np.float32) - u) / camera.focal
    lines = (np.arange(rows, dtype=np.float32) - v) / camera.focal
    distance = np.sqrt(np.add.outer(lines**2, columns**2))
    glow = 95 * np.exp(-distance * 3.2) + 190 * np.exp(-((distance / 0.045) ** 2))
    return glow[..., None] * np.array(light.sun, np.float32)


def paint_skyline(canvas: Canvas, town: Town, light: Light, *key: object) -> None:
    """Hills, then woods, roofs or towers, far away behind everything else."""
    rng = draws("skyline", *key)
    haze = math.exp(-light.fog * 260)
    if town.hills:
        green = np.array(rng.choice(town.leaves)) * 0.9
        rock = np.array(town.terrain) * 0.85
        for share, label, tone, seed in (
            (1.0, ids.TERRAIN, rock, "far"),
            (0.45, ids.VEGETATION, green, "near"),
        ):
            profile = _profile(canvas, 5, seed, *key) * 0.5 + 0.55
            top = canvas.camera.focal * town.hills * share * np.clip(profile, 0.05, 1.4)
            _silhouette(
                canvas, light, top, tone, label, haze * (0.55 if seed == "far" else 0.7), 500
            )
    focal = canvas.camera.focal
    if town.skyline in ("trees", "hills") or rng.random() < 0.5:
        size = 0.045 if town.skyline == "trees" else 0.022
        top = focal * size * np.clip(1 + 0.35 * _profile(canvas, 40, "crowns", *key), 0.2, 2)
        leaves = np.array(rng.choice(town.leaves)) * 0.85
        _silhouette(canvas, light, top, leaves, ids.VEGETATION, haze, 240)
    if town.skyline in ("towers", "roofs"):
        u = -20.0
        tall = 0.16 if town.skyline == "towers" else 0.06
        while u < canvas.camera.width:
            wide = focal * rng.uniform(0.03, 0.11)
            top = canvas.camera.horizon - focal * tall * rng.uniform(0.35, 1.0)
            style, colour = rng.choice(town.palette)
            gain = light.gain((0.0, 0.0, -1.0))
            tone = np.array(colour) * 0.8 * np.array(gain)
            mixed = tone * haze + np.array(light.fog_colour) * (1 - haze) * 0.9
            corners = np.array(
                [
                    (u, top),
                    (u + wide, top),
                    (u + wide, canvas.camera.horizon + 2),
                    (u, canvas.camera.horizon + 2),
                ]
            )
            canvas.polygon(corners, tuple(mixed), ids.BUILDING)
            canvas.fill_depth(corners, 260.0)
            if style != "corrugated":
                _far_windows(canvas, u, top, wide, tuple(mixed * 0.82))
            u += wide * rng.uniform(0.5, 1.1)


def _far_windows(canvas: Canvas, u: float, top: float, wide: float, tone: tuple) -> None:
    """Rows of windows of a building on the skyline, if it is large enough to show them."""
    pitch = canvas.camera.focal * 0.013
    if pitch < 2.5:
        return
    bars = []
    for v in np.arange(top + pitch, canvas.camera.horizon - pitch, pitch * 1.4):
        bars.append(fixed_box(u + wide * 0.1, v, u + wide * 0.9, v + pitch * 0.5))
    if bars:
        cv2.fillPoly(canvas.pixels, bars, (*tone, ids.BUILDING), cv2.LINE_8)


def fixed_box(u0: float, v0: float, u1: float, v1: float) -> np.ndarray:
    """Corners of an upright box in whole pixels, int32 [4, 2]."""
    return np.rint([(u0, v0), (u1, v0), (u1, v1), (u0, v1)]).astype(np.int32)


def _profile(canvas: Canvas, bumps: int, *key: object) -> np.ndarray:
    """A smooth random height for every column, deviation about 1."""
    rng = arrays("profile", *key)
    total = np.zeros(canvas.camera.width, np.float32)
    for octave in range(4):
        knots = rng.standard_normal((1, (bumps << octave) + 4)).astype(np.float32)
        total += cv2.resize(knots, (canvas.camera.width, 1), interpolation=cv2.INTER_CUBIC)[0] * (
            0.55**octave
        )
    return total


def _silhouette(canvas, light: Light, top, tone, label: int, haze: float, depth: float) -> None:
    """Fill every column from ``top`` pixels above the horizon down to it."""
    first, last = 0, int(np.clip(math.ceil(canvas.camera.horizon) + 2, 1, canvas.camera.height))
    rows = np.arange(first, last)[:, None]
    mask = rows >= canvas.camera.horizon - top[None]
    if not mask.any():
        return
    first = int(mask.any(axis=1).argmax())
    mask = mask[first:]
    columns = np.arange(canvas.camera.width)[None]
    grain = noise_at(128, 2, "grain", columns, np.arange(first, last)[:, None])
    lit = np.array(tone, np.float32) * np.array(light.upright, np.float32) * np.float32(haze)
    colour = lit * (1 + 0.16 * grain[..., None])
    colour += np.array(light.fog_colour, np.float32) * np.float32(1 - haze)
    region = canvas.pixels[first:last]
    np.copyto(region[..., :3], np.clip(colour, 0, 255).astype(np.uint8), where=mask[..., None])
    np.copyto(region[..., 3], np.uint8(label), where=mask)
    np.copyto(canvas.depth[first:last], np.float32(depth), where=mask)
