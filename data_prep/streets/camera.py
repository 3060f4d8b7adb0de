"""Pinhole camera over a gently bent road.

Road frame: ``s`` meters to the right of the center line, ``y`` meters above the ground, ``z``
meters ahead of the camera along the road. The bend is a shear, ``x = s + slope z + bend z^2 / 2``,
so that the depth of the ground depends on the image row alone.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

NEAR = 0.6
"""Nothing closer than this (meters) is projected."""


@dataclass(frozen=True)
class Viewpoint:
    """Where a vehicle carries its camera: meters, degrees (pitch is downwards), hood's shape."""

    height: float
    pitch: float
    field_of_view: float
    lateral: float
    hood: str


VIEWPOINTS = {
    "A": Viewpoint(height=1.35, pitch=2.0, field_of_view=82, lateral=0.0, hood="round"),
    "B": Viewpoint(height=2.75, pitch=9.0, field_of_view=90, lateral=0.3, hood="dashboard"),
    "J": Viewpoint(height=1.80, pitch=4.5, field_of_view=84, lateral=-0.1, hood="box"),
    "M": Viewpoint(height=1.15, pitch=0.5, field_of_view=76, lateral=0.1, hood="long"),
    "V": Viewpoint(height=2.10, pitch=6.0, field_of_view=86, lateral=0.0, hood="short"),
}


@dataclass(frozen=True)
class Camera:
    """Projection from the road frame to pixels; ``position`` is the camera's own s."""

    width: int
    height: int
    focal: float
    eye: float
    pitch: float
    position: float
    slope: float
    bend: float

    @property
    def horizon(self) -> float:
        """Image row of the horizon."""
        return self.height / 2 - self.focal * math.tan(self.pitch)

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels [N, 2] and camera depths [N] of road-frame points [N, 3]."""
        ahead = np.maximum(points[:, 2], NEAR)
        x = points[:, 0] - self.position + ahead * (self.slope + 0.5 * self.bend * ahead)
        down = self.eye - points[:, 1]
        sin, cos = math.sin(self.pitch), math.cos(self.pitch)
        depth = np.maximum(down * sin + ahead * cos, 0.05)
        pixels = np.empty((len(points), 2))
        pixels[:, 0] = self.width / 2 + self.focal * x / depth
        pixels[:, 1] = self.height / 2 + self.focal * (down * cos - ahead * sin) / depth
        return pixels, depth

    def point(self, s: float, y: float, z: float) -> tuple[float, float, float]:
        """Column, row and depth of one point."""
        x = s - self.position + z * (self.slope + 0.5 * self.bend * z)
        down = self.eye - y
        sin, cos = math.sin(self.pitch), math.cos(self.pitch)
        depth = max(down * sin + z * cos, 0.05)
        column = self.width / 2 + self.focal * x / depth
        row = self.height / 2 + self.focal * (down * cos - z * sin) / depth
        return column, row, depth

    @cached_property
    def ground(self) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """First row below the horizon and, for the rows from it on, the ground seen there.

        Returns (row, z [rows, 1], s [rows, W], camera depth [rows, 1]), float32.
        """
        first = min(max(math.floor(self.horizon) + 1, 0), self.height - 1)
        sin, cos = math.sin(self.pitch), math.cos(self.pitch)
        tangent = (np.arange(first, self.height) + 0.5 - self.height / 2) / self.focal
        depth = np.minimum(self.eye / np.maximum(tangent * cos + sin, 1e-4), 900.0)
        z = depth * (cos - tangent * sin)
        columns = (np.arange(self.width) + 0.5 - self.width / 2) / self.focal
        s = np.outer(depth, columns)
        s += (self.position - z * (self.slope + 0.5 * self.bend * z))[:, None]
        return (
            first,
            z[:, None].astype(np.float32),
            s.astype(np.float32),
            depth[:, None].astype(np.float32),
        )


def clip_near(points: np.ndarray, near: float = NEAR) -> np.ndarray:
    """The part of a planar polygon [N, 3] that lies ahead of the near plane."""
    ahead = points[:, 2] >= near
    if ahead.all():
        return points
    kept: list[np.ndarray] = []
    for i in range(len(points)):
        a, b = points[i - 1], points[i]
        if ahead[i] != ahead[i - 1]:
            kept.append(a + (b - a) * ((near - a[2]) / (b[2] - a[2])))
        if ahead[i]:
            kept.append(b)
    return np.array(kept).reshape(-1, 3)
