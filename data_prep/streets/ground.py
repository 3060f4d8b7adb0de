"""The ground: every pixel below the horizon looks up its place on the cross-section."""

import cv2
import numpy as np

from . import ids
from .camera import clip_near
from .canvas import Canvas, fixed
from .keys import draws
from .layout import Street
from .light import Light
from .textures import noise_at
from .towns import Town
from .vehicles import footprint

_FINE = 64  # texels a meter of the finest grain
_COARSE = 8

_WHITE, _YELLOW = (222, 222, 216), (214, 176, 60)
_CURB_WIDTH = 0.18
_YELLOW_LINE, _SOIL = 30, 31
_CLOSE = 0.9  # ground outlines are cut off this close to the camera


def paint_ground(canvas: Canvas, town: Town, street: Street, light: Light, *key: object) -> None:
    """Paint materials, road lines, shadows; set labels and depths."""
    rng = draws("ground", *key)
    first, z, s, depth = canvas.camera.ground
    away = np.abs(s)
    label = _materials(town, street, s, away, z)
    lines, yellow = _road_lines(town, street, s, away, z, rng)
    label[lines & (label == ids.ROAD)] = ids.ROAD_LINE

    # Colors by material; painted yellow and bare soil are materials of their own.
    material = label.copy()
    table = np.zeros((32, 3), np.float32)
    table[ids.ROAD] = np.array(town.asphalt) * rng.uniform(0.9, 1.1)
    table[ids.SIDEWALK] = np.array(town.paving) * rng.uniform(0.9, 1.08)
    table[ids.TERRAIN] = np.array(town.terrain) * rng.uniform(0.85, 1.1)
    table[ids.ROAD_LINE] = _WHITE
    table[_YELLOW_LINE] = _YELLOW
    table[_SOIL] = table[ids.TERRAIN] * (1.12, 0.95, 0.85)
    if yellow is not None:
        material[yellow & (label == ids.ROAD_LINE)] = _YELLOW_LINE

    # Grain: fine noise that blurs out with distance, and patches.
    across, along = rng.randrange(4096), rng.randrange(4096)
    ahead = np.minimum(z, 400)
    column, row = (s * _FINE).astype(np.int32), (ahead * _FINE).astype(np.int32)
    fine = noise_at(128, 2, "grain", column + across, row + along)
    fine *= np.minimum(9.0 / depth, 1)
    column, row = (s * _COARSE).astype(np.int32), (ahead * (_COARSE * 0.6)).astype(np.int32)
    coarse = noise_at(8, 6, "patches", column + across, row + along)
    wear = np.float32(street.wear)
    contrast = np.full(32, 0.06, np.float32) * wear
    contrast[ids.TERRAIN] = 0.20
    patches = np.full(32, 0.055, np.float32)
    patches[ids.TERRAIN] = 0.11
    factor = 1 + contrast.take(label) * fine + patches.take(label) * coarse

    road, paved = (label == ids.ROAD) | (label == ids.ROAD_LINE), label == ids.SIDEWALK
    # Worn wheel tracks are a little lighter, seams between pours darker.
    lane = away * np.float32(1 / street.lane_width)
    lane -= np.floor(lane)
    track = (np.abs(lane - 0.5) * np.float32(street.lane_width) - 0.75) * 2
    factor += road * (0.05 * np.maximum(1 - track * track, 0) - 0.02)
    cracks = np.abs(coarse) < 0.012 * np.clip(depth * 0.12, 1, 5)
    factor -= (0.12 * wear) * (cracks & road)
    worn = (label == ids.ROAD_LINE) & (fine + coarse > 1.6 - 0.5 * wear)
    factor *= 1 - np.float32(0.28) * worn
    _paving(factor, town, s, z, depth, paved)
    if town.verge[1] > 0.25:  # soil shows through grass
        soil = (label == ids.TERRAIN) & (coarse + 0.5 * fine > 1.15)
        material[soil] = _SOIL
    if town.sidewalk[1] > 0 or street.sidewalk[1] > 0:  # a light curb over a dark gutter
        edge = away - street.half
        factor *= 1 + np.float32(0.16) * (paved & (edge < _CURB_WIDTH))
        factor *= 1 - np.float32(0.26) * (road & (edge > -0.16) & (edge < 0))

    factor *= _contact(canvas, street, first)
    np.maximum(factor, 0.05, out=factor)
    sun = _sun_on_ground(canvas, street, light, first) if light.shadows else None
    for channel in range(3):
        plane = table[:, channel].take(material)
        plane *= factor
        if sun is None:
            plane *= np.float32(light.ambient[channel])
        else:
            strength = light.sun[channel] * light.towards[1]
            plane *= sun * np.float32(strength) + np.float32(light.ambient[channel])
        canvas.pixels[first:, :, channel] = np.minimum(plane, 255, out=plane)
    canvas.pixels[first:, :, 3] = label
    canvas.depth[first:] = depth


def _materials(town: Town, street: Street, s, away, z) -> np.ndarray:
    """Label of every ground pixel by where it lies on the cross-section."""
    right = s > 0
    curb = np.float32(street.half)
    walk = np.where(
        right, curb + np.float32(street.sidewalk[1]), curb + np.float32(street.sidewalk[-1])
    )
    label = np.full(s.shape, ids.TERRAIN, np.uint8)
    if town.sidewalk[1] > 0 and town.verge[1] < 1.8:
        # In dense towns the gaps between houses are paved.
        label[away < 30] = ids.SIDEWALK
        if town.verge[1] > 0.25:
            label[(away > walk) & (away < walk + np.float32(street.verge[1]))] = ids.TERRAIN
    else:
        label[away < walk] = ids.SIDEWALK
    label[away < curb] = ids.ROAD
    if street.crossing:
        begin, finish = street.crossing
        rows = np.flatnonzero((z[:, 0] > begin) & (z[:, 0] < finish))
        if len(rows):
            part = slice(rows[0], rows[-1] + 1)
            label[part][away[part] < 90] = ids.ROAD
        rows = np.flatnonzero((z[:, 0] > begin - 2.2) & (z[:, 0] < finish + 2.2))
        if len(rows):
            part = slice(rows[0], rows[-1] + 1)
            kerb = ids.SIDEWALK if town.sidewalk[1] > 0 else ids.TERRAIN
            beside = (z[part] < begin) | (z[part] > finish)
            label[part][beside & (away[part] > curb) & (away[part] < 60)] = kerb
    return label


def _paving(factor, town: Town, s, z, depth, paved) -> None:
    """Slabs of slightly different tone with dark joints, near enough to tell them apart."""
    joint = town.paving_joint
    near = np.clip(1.6 - depth / (26 * joint), 0, 1)
    start = int(np.argmax(near[:, 0] > 0)) if near.any() else len(near)
    if start == len(near):
        return
    s, z, depth, near = s[start:], z[start:], depth[start:], near[start:]
    column, row = s / np.float32(joint), z / np.float32(joint)
    whole = np.floor(column)
    joints = ((column - whole) * joint < 0.04) | (
        (row % 1) * joint < np.maximum(0.04, depth * 0.012)
    )
    tiles = noise_at(512, 1, "tiles", whole.astype(np.int32), row.astype(np.int32))
    factor[start:] += paved[start:] * near * (0.035 * tiles - np.float32(0.16) * joints)


def _road_lines(town: Town, street: Street, s, away, z, rng):
    """Mask of painted lines, and of the yellow ones among them (None if all are white)."""
    thin = 0.09
    dash = (z + rng.uniform(0, 9)) % 9.0 < 3.5
    lines = np.zeros(s.shape, bool)
    yellow = None
    centre = away < thin
    if not street.one_way:
        if street.lanes > 1 or rng.random() < 0.3:
            centre = np.abs(away - 0.16) < 0.07
            lines |= centre
        else:
            lines |= centre & dash
        if town.yellow_lines:
            yellow = away < 0.4
    for lane in range(1, street.lanes):
        lines |= (np.abs(away - lane * street.lane_width) < thin) & dash
    edge = street.lanes * street.lane_width
    if town.sidewalk[1] == 0 or rng.random() < 0.4:
        lines |= np.abs(away - edge + 0.05) < thin
    if street.parking[1] or street.parking[-1]:
        bays = (z % 6.3 < 0.12) & (away > edge) & (away < street.half)
        lines |= bays
        lines |= (np.abs(away - edge) < 0.06) & (z % 1.5 < 0.75)
    if street.crossing:
        begin, finish = street.crossing
        lines &= (z < begin - (4.4 if street.zebra else 1.2)) | (z > finish + 1.0)
        stop = begin - (4.4 if street.zebra else 1.2)
        inner = away < edge - 0.2
        lines |= (z > stop - 0.45) & (z < stop) & inner & ((s > 0) | street.one_way)
        if street.zebra:
            stripes = s - np.floor(s) < 0.5
            lines |= (z > begin - 3.6) & (z < begin - 0.8) & stripes & (away < street.half - 0.3)
    return lines, yellow


def _sun_on_ground(canvas: Canvas, street: Street, light: Light, first: int) -> np.ndarray:
    """1 where the sun reaches the ground, 0 in shadow: float32 [rows, W].

    The shadow of an upright body is the hull of its foot and of its outline moved by the sun.
    """
    flat = np.array([light.towards[0], 0.0, light.towards[2]]) / light.towards[1]
    outlines: list[np.ndarray] = []

    def throw(base: np.ndarray, lift: float) -> None:
        outlines.append(np.concatenate([base, base - flat * lift]))

    for lot in street.lots:
        if lot.z0 > 100:
            continue
        near, far = lot.front, lot.front + (lot.depth if lot.kind == "building" else 0.3)
        sides = [(near, lot.z0), (near, lot.z1), (far, lot.z1), (far, lot.z0)]
        throw(np.array([(lot.side * s, 0, z) for s, z in sides]), lot.height)
    for thing in street.things:
        if thing.z > 60:
            continue
        kind, what = thing.kind, thing.what
        if kind == "plant":
            size = what["height"]
            wide = size * {"poplar": 0.12, "conifer": 0.18, "bush": 0.5}.get(what["plant"], 0.3)
            middle = (0.5 if what["plant"] == "bush" else 0.6) * size
            crown = _disc(thing.s, thing.z, wide) - flat * (middle - 0.22 * size)
            throw(crown, 0.44 * size)
            throw(_disc(thing.s, thing.z, 0.12), middle)
        elif kind == "vehicle":
            throw(footprint(what, thing.s, thing.z), 1.45)
        elif kind in _SHADOW_OF:
            radius, tall = _SHADOW_OF[kind]
            throw(_disc(thing.s, thing.z, radius), tall)
    mask = _fill(canvas, outlines, [0] * len(outlines))
    soft = max(canvas.camera.height // 100, 1) | 1
    return cv2.blur(mask[first:], (soft, soft)).astype(np.float32) * np.float32(1 / 255)


_SHADOW_OF = {
    "person": (0.22, 1.6),
    "two_wheeler": (0.25, 1.5),
    "lamp": (0.08, 7.0),
    "signal": (0.08, 5.0),
    "sign": (0.08, 2.4),
    "telegraph": (0.1, 7.0),
    "bin": (0.3, 1.0),
}
"""Radius and height, in meters, of what throws a shadow like a post's."""


def _fill(canvas: Canvas, outlines: list[np.ndarray], values: list[int]) -> np.ndarray:
    """Ground hulls of point sets, in order, on white: uint8 [H, W]."""
    mask = np.full(canvas.depth.shape, 255, np.uint8)
    if not outlines:
        return mask
    corners = fixed(canvas.camera.project(np.concatenate(outlines))[0])
    first = 0
    for outline, value in zip(outlines, values, strict=True):
        part = corners[first : first + len(outline)]
        first += len(outline)
        if outline[:, 2].min() < _CLOSE:
            ahead = clip_near(_hull(outline), _CLOSE)
            if len(ahead) < 3:
                continue
            part = fixed(canvas.camera.project(ahead)[0])
        cv2.fillConvexPoly(mask, cv2.convexHull(part), value, cv2.LINE_8, 4)
    return mask


def _contact(canvas: Canvas, street: Street, first: int) -> np.ndarray:
    """Darkening under and beside things that stand on the ground: float32 [rows, W]."""
    outlines: list[np.ndarray] = []
    values: list[int] = []

    def darken(base: np.ndarray, value: int) -> None:
        outlines.append(base)
        values.append(value)

    for lot in street.lots:
        if lot.z0 < 90:
            reach = 0.8 if lot.kind == "building" else 0.4
            sides = [(-reach, lot.z0), (-reach, lot.z1), (1, lot.z1), (1, lot.z0)]
            darken(np.array([(lot.side * (lot.front + s), 0, z) for s, z in sides]), 190)
    for thing in street.things:
        if thing.z > 60:
            continue
        if thing.kind == "vehicle":
            foot = footprint(thing.what, thing.s, thing.z)
            centre = foot.mean(axis=0)
            darken(centre + (foot - centre) * 1.12, 150)
            darken(foot, 62)
        elif thing.kind in ("person", "two_wheeler", "bin", "plant"):
            darken(_disc(thing.s, thing.z, 0.4), 150)
    mask = _fill(canvas, outlines, values)
    soft = max(canvas.camera.height // 64, 1) | 1
    return cv2.blur(mask[first:], (soft, soft)).astype(np.float32) * np.float32(1 / 255)


_CIRCLE = np.stack(
    [np.cos(np.arange(8) * np.pi / 4), np.zeros(8), np.sin(np.arange(8) * np.pi / 4)], axis=1
)


def _disc(s: float, z: float, radius: float) -> np.ndarray:
    return _CIRCLE * radius + (s, 0.0, z)


def _hull(points: np.ndarray) -> np.ndarray:
    """Convex hull of points on the ground."""
    flat = cv2.convexHull(points[:, [0, 2]].astype(np.float32)).reshape(-1, 2)
    hull = np.zeros((len(flat), 3))
    hull[:, 0], hull[:, 2] = flat[:, 0], flat[:, 1]
    return hull
