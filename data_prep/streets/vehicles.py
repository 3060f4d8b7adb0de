"""Cars, vans, trucks, buses, trams: side profiles drawn out across the width."""

import math
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from . import ids
from .canvas import Canvas, Colour, fixed
from .light import Light

PAINTS = (
    (206, 208, 210),
    (236, 236, 234),
    (40, 42, 46),
    (96, 100, 106),
    (150, 28, 32),
    (34, 62, 120),
    (60, 84, 70),
    (180, 160, 120),
    (214, 170, 50),
    (90, 130, 160),
    (120, 60, 40),
    (30, 34, 60),
)


@dataclass(frozen=True)
class Body:
    """Meters. ``hull`` and ``cabin`` are (length from the rear as a share, height) profiles.

    The cabin's four points are rear foot, rear top, front top, front foot. Without a cabin the hull
    is a box with a band of windows.
    """

    length: float
    width: float
    hull: tuple[tuple[float, float], ...]
    cabin: tuple[tuple[float, float], ...] | None
    share: float
    label: int = ids.CAR
    paints: tuple = ()


BODIES = {
    "sedan": Body(
        4.6, 1.8,
        ((0.0, 0.35), (0.0, 0.80), (0.02, 0.92), (0.20, 0.95),
         (0.70, 0.92), (0.97, 0.74), (1.0, 0.6), (1.0, 0.32)),
        ((0.10, 0.94), (0.24, 1.42), (0.52, 1.44), (0.70, 0.92)), 6,
    ),
    "hatchback": Body(
        4.0, 1.75,
        ((0.0, 0.35), (0.0, 0.85), (0.02, 0.95), (0.20, 0.98),
         (0.74, 0.95), (0.97, 0.76), (1.0, 0.6), (1.0, 0.32)),
        ((0.01, 0.95), (0.10, 1.46), (0.50, 1.50), (0.74, 0.95)), 5,
    ),
    "suv": Body(
        4.6, 1.9,
        ((0.0, 0.45), (0.0, 1.02), (0.02, 1.10), (0.20, 1.12),
         (0.72, 1.10), (0.98, 0.98), (1.0, 0.8), (1.0, 0.42)),
        ((0.01, 1.10), (0.06, 1.70), (0.54, 1.74), (0.71, 1.10)), 4,
    ),
    "van": Body(
        5.2, 1.95,
        ((0.0, 0.40), (0.0, 1.15), (0.20, 1.18), (0.82, 1.16),
         (0.98, 0.95), (1.0, 0.75), (1.0, 0.35)),
        ((0.0, 1.15), (0.01, 2.20), (0.66, 2.25), (0.84, 1.16)), 2,
    ),
    "truck": Body(
        8.0, 2.4,
        ((0.0, 0.55), (0.0, 3.25), (0.72, 3.25), (0.74, 2.6),
         (0.97, 2.55), (1.0, 1.6), (1.0, 0.45)),
        None, 0.7, ids.TRUCK,
        ((216, 214, 208), (60, 90, 150), (170, 60, 50), (196, 160, 60), (110, 120, 116)),
    ),
    "bus": Body(
        10.5, 2.5,
        ((0.0, 0.40), (0.0, 3.05), (0.98, 3.05), (1.0, 2.7), (1.0, 0.35)),
        None, 0.6, ids.BUS,
        ((196, 60, 50), (226, 190, 70), (70, 120, 170), (220, 222, 220), (90, 150, 100)),
    ),
    "tram": Body(
        16.0, 2.4,
        ((0.0, 0.30), (0.0, 3.35), (0.98, 3.35), (1.0, 2.6), (1.0, 0.3)),
        None, 0.22, ids.TRAM,
        ((200, 50, 46), (236, 222, 160), (60, 130, 120)),
    ),
}  # fmt: skip

_COLOURS = {
    "tyre": (24, 24, 26),
    "hub": (128, 130, 134),
    "plate": (210, 208, 196),
    "grille": (30, 30, 32),
    "trim": (34, 34, 36),
    "front lamp": (226, 226, 218),
    "rear lamp": (150, 20, 22),
}
_GLOW = {"front lamp": (255, 244, 214), "rear lamp": (230, 30, 24)}
_CIRCLE = np.stack(
    [np.cos(np.arange(12) * math.pi / 6), np.sin(np.arange(12) * math.pi / 6)], axis=1
)


def footprint(what: dict, s: float, z: float) -> np.ndarray:
    """Corners of a vehicle on the ground, road frame [4, 3]."""
    body = BODIES[what["body"]]
    x, y = body.width / 2, body.length / 2
    corners = np.array([(-x, 0, -y), (x, 0, -y), (x, 0, y), (-x, 0, y)])
    return _place(corners, what["heading"], s, z)


def _place(points: np.ndarray, heading: float, s: float, z: float) -> np.ndarray:
    """Vehicle frame (x right, y up, z to the front, center at the origin) to the road frame."""
    cos, sin = math.cos(heading), math.sin(heading)
    placed = np.empty_like(points, dtype=np.float64)
    placed[:, 0] = points[:, 0] * cos + points[:, 2] * sin + s
    placed[:, 1] = points[:, 1]
    placed[:, 2] = points[:, 2] * cos - points[:, 0] * sin + z
    return placed


def paint_vehicle(canvas: Canvas, light: Light, s: float, z: float, what: dict) -> None:
    """Paint one vehicle; all of it gets the depth of its nearest point."""
    body, heading = BODIES[what["body"]], what["heading"]
    if z - body.length / 2 * abs(math.cos(heading)) < 1.0:
        return
    mesh = _mesh(what["body"])
    camera = canvas.camera
    points = _place(mesh.points, heading, s, z)
    middles = _place(mesh.middles, heading, s, z)
    normals = _place(mesh.normals, heading, 0.0, 0.0)
    bent = z * (camera.slope + 0.5 * camera.bend * z)
    eye = np.array([camera.position - bent, camera.eye, 0.0])
    visible = np.flatnonzero(((eye - middles) * normals).sum(axis=1) > 0).tolist()
    near = float(max(points[:, 2].min(), 0.5))
    corners, _ = camera.project(points)
    outlines = fixed(corners)
    shining = light.headlights and not what["parked"]
    colours = _COLOURS | {"paint": what["paint"], "glass": light.glass}
    if what["braking"] and not what["parked"]:
        colours["rear lamp"] = (240, 44, 36)
    for face in visible:
        material = mesh.materials[face]
        block = slice(mesh.starts[face], mesh.starts[face + 1])
        colour, normal = colours[material], normals[face].tolist()
        gain = light.glass_gain(normal) if material == "glass" else light.gain(normal)
        if shining and material in _GLOW:
            colour, gain = _GLOW[material], (1.0, 1.0, 1.0)
            u, v = corners[block].mean(axis=0).tolist()
            canvas.lamps.append((u, v, near, colour))
        tone = [min(c * g, 255.0) for c, g in zip(colour, gain, strict=True)]
        cv2.fillConvexPoly(canvas.pixels, outlines[block], (*tone, body.label), cv2.LINE_8, 4)
    u0, v0 = np.maximum(corners.min(axis=0).astype(int) - 1, 0).tolist()
    u1, v1 = np.maximum(corners.max(axis=0).astype(int) + 2, 0).tolist()
    silhouette = canvas.pixels[v0:v1, u0:u1, 3] == body.label
    np.copyto(canvas.depth[v0:v1, u0:u1], np.float32(near), where=silhouette)


@dataclass(frozen=True)
class _Mesh:
    """Faces in drawing order, vehicle frame; face i has the corners starts[i] to starts[i + 1]."""

    points: np.ndarray
    starts: list[int]
    normals: np.ndarray
    middles: np.ndarray
    materials: list[str]


@cache
def _mesh(name: str) -> _Mesh:
    faces = _Faces(BODIES[name].width / 2)
    body = BODIES[name]
    length = body.length
    hull = [((share - 0.5) * length, y) for share, y in body.hull]
    faces.extrude(hull, [1.0] * len(hull))
    _wheels(faces, length)
    if body.cabin:
        cabin = [((share - 0.5) * length, y) for share, y in body.cabin]
        narrow = (0.97, 0.80, 0.80, 0.97)
        faces.extrude(cabin, narrow)
        for i in (0, 2):
            a, b = _shrunk((cabin[i], cabin[i + 1]), 0.82)
            faces.across(a, b, narrow[i] * 0.9, narrow[i + 1] * 0.92, "glass")
        window = _shrunk(cabin, 0.8)
        if name == "van":
            window = [(max(at, length * 0.12), y) for at, y in _shrunk(cabin, 0.74)]
        for sign in (-1, 1):
            faces.side(window, sign, (0.975, 0.83, 0.83, 0.975), "glass")
    else:
        _band_of_windows(faces, name, hull[1][1], length)
    _front_and_rear(faces, length)
    starts = np.cumsum([0] + [len(points) for points in faces.points]).tolist()
    return _Mesh(
        np.concatenate(faces.points),
        starts,
        np.array(faces.normals),
        np.array([points.mean(axis=0) for points in faces.points]),
        faces.materials,
    )


class _Faces:
    """Collects the faces of a body that is ``half`` meters wide to either side."""

    def __init__(self, half: float) -> None:
        self.half = half
        self.points: list[np.ndarray] = []
        self.normals: list[tuple[float, float, float]] = []
        self.materials: list[str] = []

    def add(self, points: list | np.ndarray, normal: Colour, material: str) -> None:
        self.points.append(np.array(points, np.float64))
        self.normals.append(normal)
        self.materials.append(material)

    def across(self, a, b, narrow_a: float, narrow_b: float, material: str) -> None:
        """A strip over the width from profile point a to b, seen from the left of a to b."""
        (za, ya), (zb, yb) = a, b
        xa, xb = self.half * narrow_a, self.half * narrow_b
        run, rise = zb - za, yb - ya
        size = math.hypot(run, rise)
        corners = [(-xa, ya, za), (-xb, yb, zb), (xb, yb, zb), (xa, ya, za)]
        self.add(corners, (0.0, run / size, -rise / size), material)

    def side(self, profile, sign: int, narrow, material: str) -> None:
        """The profile as the left (-1) or right (1) side."""
        corners = [
            (sign * self.half * n, y, at) for (at, y), n in zip(profile, narrow, strict=True)
        ]
        self.add(corners, (float(sign), 0.15, 0.0), material)

    def extrude(self, profile, narrow) -> None:
        """Strips along the profile and its two sides, in the body's paint."""
        for i in range(len(profile) - 1):
            self.across(profile[i], profile[i + 1], narrow[i], narrow[i + 1], "paint")
        for sign in (-1, 1):
            self.side(profile, sign, narrow, "paint")


def _shrunk(profile, amount: float) -> list:
    centre_z = sum(point[0] for point in profile) / len(profile)
    centre_y = sum(point[1] for point in profile) / len(profile)
    return [
        (centre_z + (at - centre_z) * amount, centre_y + (y - centre_y) * amount)
        for at, y in profile
    ]


def _wheels(faces: _Faces, length: float) -> None:
    reach = 0.3 if length < 6 else 0.45
    for at in (-0.31, 0.31):
        for sign in (-1, 1):
            for radius, material in ((reach, "tyre"), (reach * 0.58, "hub")):
                points = np.empty((12, 3))
                points[:, 0] = sign * (faces.half + 0.02)
                points[:, 1] = reach + radius * _CIRCLE[:, 1]
                points[:, 2] = at * length + radius * _CIRCLE[:, 0]
                faces.add(points, (float(sign), 0.0, 0.0), material)


def _front_and_rear(faces: _Faces, length: float) -> None:
    """Bumpers, lamps, number plate, grille."""
    half, y = faces.half, 0.72 if length < 6 else 0.85
    for toward in (-1.0, 1.0):
        at, normal = toward * (length / 2 + 0.01), (0.0, 0.0, toward)

        def plate(x0, x1, y0, y1, material, at=at, normal=normal) -> None:
            faces.add([(x0, y0, at), (x0, y1, at), (x1, y1, at), (x1, y0, at)], normal, material)

        plate(-half, half, 0.3, 0.42, "trim")
        lamp, high = ("rear lamp", y) if toward < 0 else ("front lamp", y - 0.1)
        for sign in (-1, 1):
            plate(sign * half * 0.95, sign * half * 0.58, high - 0.08, high + 0.08, lamp)
        if toward < 0:
            plate(-0.27, 0.27, 0.45, 0.57, "plate")
        else:
            plate(-0.5, 0.5, 0.44, 0.56, "grille")


def _band_of_windows(faces: _Faces, kind: str, top: float, length: float) -> None:
    """Windows of a bus or tram; a truck has them at the cab."""
    if kind == "truck":
        band = [(0.30, 1.6), (0.45, 1.6), (0.43, 2.35), (0.30, 2.35)]
        for sign in (-1, 1):
            faces.side([(at * length, y) for at, y in band], sign, [1.005] * 4, "glass")
        faces.across((0.482 * length, 2.4), (0.492 * length, 1.75), 0.9, 0.9, "glass")
        return
    count = 5 if kind == "bus" else 8
    low, high = top * 0.46, top * 0.84
    for i in range(count):
        a, b = ((i + 0.1) / count - 0.49) * length, ((i + 0.92) / count - 0.49) * length
        for sign in (-1, 1):
            faces.side([(a, low), (a, high), (b, high), (b, low)], sign, [1.005] * 4, "glass")
    end = 0.502 * length
    faces.across((end, top * 0.84), (end, top * 0.42), 0.92, 0.92, "glass")
    faces.across((-end, top * 0.5), (-end, top * 0.82), 0.85, 0.85, "glass")
