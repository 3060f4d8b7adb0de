"""Drawing surface: color, label and depth of every pixel, painted from back to front.

Color and label are channels of one array, so a primitive writes both to the same pixels.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np

from .camera import Camera, clip_near

_SHIFT = 4  # fractional bits of polygon corners
_FAR_OUT = 20000.0  # corners are clamped here, well inside 32-bit fixed point

Colour = tuple[float, float, float]


class Canvas:
    """``pixels`` uint8 [H, W, 4] (red, green, blue, label), ``depth`` float32 [H, W] (meters)."""

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        self.pixels = np.zeros((camera.height, camera.width, 4), np.uint8)
        self.depth = np.full((camera.height, camera.width), 900.0, np.float32)
        self.lamps: list[tuple[float, float, float, Colour]] = []

    def polygon(self, corners: np.ndarray, colour: Colour, label: int) -> None:
        """Fill a convex polygon given in pixels [N, 2]; leaves the depth alone."""
        cv2.fillConvexPoly(self.pixels, fixed(corners), (*colour, label), cv2.LINE_8, _SHIFT)

    def fill_depth(self, corners: np.ndarray, depth: float) -> None:
        """Set the depth inside a convex polygon."""
        cv2.fillConvexPoly(self.depth, fixed(corners), depth, cv2.LINE_8, _SHIFT)

    def face(self, points: np.ndarray, colour: Colour, label: int) -> None:
        """Fill a convex polygon given in the road frame [N, 3], with its depth."""
        points = clip_near(np.asarray(points, np.float64))
        if len(points) < 3:
            return
        corners, depths = self.camera.project(points)
        outline = fixed(corners)
        cv2.fillConvexPoly(self.pixels, outline, (*colour, label), cv2.LINE_8, _SHIFT)
        cv2.fillConvexPoly(self.depth, outline, float(depths.mean()), cv2.LINE_8, _SHIFT)

    def line(
        self,
        start: tuple[float, float, float],
        end: tuple[float, float, float],
        width: float,
        colour: Colour,
        label: int,
    ) -> None:
        """A post or bar between two road-frame points, ``width`` meters thick, at least a pixel."""
        u0, v0, z0 = self.camera.point(*start)
        u1, v1, z1 = self.camera.point(*end)
        half = max(width * self.camera.focal / min(z0, z1), 1.0) / 2
        dx, dy = u1 - u0, v1 - v0
        norm = max((dx * dx + dy * dy) ** 0.5, 1e-6)
        nx, ny = -dy / norm * half, dx / norm * half
        # fillConvexPoly paints the outline too: half a pixel less on either side keeps the width.
        nx, ny = nx * (1 - 0.5 / half), ny * (1 - 0.5 / half)
        corners = np.array(
            [(u0 + nx, v0 + ny), (u1 + nx, v1 + ny), (u1 - nx, v1 - ny), (u0 - nx, v0 - ny)]
        )
        outline = fixed(corners)
        cv2.fillConvexPoly(self.pixels, outline, (*colour, label), cv2.LINE_8, _SHIFT)
        cv2.fillConvexPoly(self.depth, outline, min(z0, z1), cv2.LINE_8, _SHIFT)

    def texture(
        self,
        levels: Sequence[np.ndarray],
        crop: tuple[float, float, float, float],
        quad: np.ndarray,
        gain: Colour,
        label: int,
    ) -> None:
        """Map a crop of a texture on a plane quad.

        Args:
            levels: the texture and its halvings, uint8 [h, w, 3], or [h, w, 4] where the fourth
                channel is the opacity (the label is written all over the quad).
            crop: x0, y0, x1, y1 in pixels of the first level.
            quad: road-frame corners [4, 3]: top left, top right, bottom right, bottom left.
            gain: factors on red, green and blue.
        """
        corners, depths = self.camera.project(quad)
        height, width = self.depth.shape
        columns, lines = corners[:, 0].tolist(), corners[:, 1].tolist()
        u0, v0 = max(math.floor(min(columns)) - 1, 0), max(math.floor(min(lines)) - 1, 0)
        u1 = min(math.ceil(max(columns)) + 2, width)
        v1 = min(math.ceil(max(lines)) + 2, height)
        if u1 - u0 < 1 or v1 - v0 < 1:
            return
        # Texels a pixel, in the worse direction of the nearer edge, choose the level.
        left, right = abs(lines[3] - lines[0]), abs(lines[2] - lines[1])
        across = abs(columns[1] - columns[0]) + 1.0
        density = max(
            (crop[3] - crop[1]) / max(left, right, 1.0), 0.6 * (crop[2] - crop[0]) / across
        )
        level = min(int(math.log2(max(density, 1.0)) + 0.4), len(levels) - 1)
        scale = 0.5**level
        x0, y0, x1, y1 = (value * scale for value in crop)
        source = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.float32) - 0.5
        target = (corners - (u0, v0)).astype(np.float32)
        matrix = cv2.getPerspectiveTransform(source, target)
        size = (u1 - u0, v1 - v0)
        painted = cv2.warpPerspective(
            levels[level], matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        mask = np.zeros((size[1], size[0]), np.uint8)
        cv2.fillConvexPoly(mask, fixed(corners - (u0, v0)), 255, cv2.LINE_8, _SHIFT)
        region = self.pixels[v0:v1, u0:u1]
        if painted.shape[2] == 4:
            colour = cv2.multiply(cv2.cvtColor(painted, cv2.COLOR_RGBA2RGB), (*gain, 1.0))
            mixed = blend(region, colour, painted[..., 3])
            painted = cv2.merge((*cv2.split(mixed), np.full_like(mask, label)))
        else:
            painted = cv2.multiply(cv2.cvtColor(painted, cv2.COLOR_RGB2RGBA), (*gain, 0.0))
            painted[..., 3] = label
        cv2.copyTo(painted, mask, region)
        # Inverse depth is affine over the image of a plane, and hardly varies along its uprights.
        start, end = 1.0 / depths[3], 1.0 / depths[2]
        step = (end - start) / (columns[2] - columns[3]) if columns[2] != columns[3] else 0.0
        inverse = start + step * (np.arange(u0, u1, dtype=np.float32) - columns[3])
        depth = 1.0 / np.minimum(np.maximum(inverse, 1e-3), 2.0)
        np.copyto(self.depth[v0:v1, u0:u1], depth, where=mask.view(bool))

    def sprite(
        self,
        colours: np.ndarray,
        labels: np.ndarray,
        left: float,
        top: float,
        right: float,
        bottom: float,
        depth: float,
        gain: Colour,
    ) -> None:
        """Paste an upright picture into the given rectangle of pixels (sides may lie outside).

        Args:
            colours: uint8 [h, w, 4], premultiplied color and opacity.
            labels: uint8 [h, w], the label of every texel, 0 where none is written; or one label
                as an array [1, 1], written where the opacity is at least one half.
        """
        height, width = self.depth.shape
        u0, v0 = max(math.floor(left), 0), max(math.floor(top), 0)
        u1, v1 = min(math.ceil(right), width), min(math.ceil(bottom), height)
        if u1 <= u0 or v1 <= v0:
            return
        fx, fy = (right - left) / colours.shape[1], (bottom - top) / colours.shape[0]
        matrix = np.array([[fx, 0, left - u0 + 0.5 * fx - 0.5], [0, fy, top - v0 + 0.5 * fy - 0.5]])
        size = (u1 - u0, v1 - v0)
        drawn = cv2.warpAffine(colours, matrix, size, flags=cv2.INTER_LINEAR)
        opacity = np.ascontiguousarray(drawn[..., 3])
        region = self.pixels[v0:v1, u0:u1]
        background = cv2.cvtColor(region, cv2.COLOR_RGBA2RGB)
        rest = cv2.cvtColor(cv2.bitwise_not(opacity), cv2.COLOR_GRAY2RGB)
        ink = cv2.multiply(cv2.cvtColor(drawn, cv2.COLOR_RGBA2RGB), (*gain, 0.0))
        region[..., :3] = cv2.add(ink, cv2.multiply(background, rest, scale=1 / 255))
        if labels.size == 1:
            written = opacity >= 128
            np.copyto(region[..., 3], labels.flat[0], where=written)
        else:
            ids = cv2.warpAffine(labels, matrix, size, flags=cv2.INTER_NEAREST)
            written = ids > 0
            np.copyto(region[..., 3], ids, where=written)
        np.copyto(self.depth[v0:v1, u0:u1], np.float32(depth), where=written)


def fixed(corners: np.ndarray) -> np.ndarray:
    """Pixel corners in OpenCV's fixed point."""
    scaled = (corners - 0.5) * (1 << _SHIFT)
    np.minimum(scaled, _FAR_OUT * (1 << _SHIFT), out=scaled)
    np.maximum(scaled, -_FAR_OUT * (1 << _SHIFT), out=scaled)
    return np.rint(scaled, out=scaled).astype(np.int32)


def blend(region: np.ndarray, colour: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    """Color [h, w, 3] over the region's own, by opacity [h, w] of 0 to 255."""
    background = cv2.cvtColor(region, cv2.COLOR_RGBA2RGB)
    share = cv2.cvtColor(np.ascontiguousarray(opacity), cv2.COLOR_GRAY2RGB)
    front = cv2.multiply(colour, share, scale=1 / 255)
    return cv2.add(front, cv2.multiply(background, cv2.bitwise_not(share), scale=1 / 255))


def halvings(texture: np.ndarray, count: int = 6) -> list[np.ndarray]:
    """A texture and its successive halvings."""
    levels = [texture]
    while len(levels) < count and min(levels[-1].shape[:2]) > 3:
        h, w = levels[-1].shape[:2]
        levels.append(
            cv2.resize(levels[-1], (max(w // 2, 1), max(h // 2, 1)), interpolation=cv2.INTER_AREA)
        )
    return levels
