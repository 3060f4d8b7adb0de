"""Pictures that always face the camera: trees, people, two-wheelers.

People and two-wheelers are drawn as maps of parts, which every instance colors on its own.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import cv2
import numpy as np

from . import ids
from .canvas import halvings
from .keys import arrays, draws

TREES = {"broad": 8, "conifer": 5, "poplar": 4, "palm": 4, "bush": 6}
"""Kinds of plants and how many different pictures there are of each."""

_TRUNK_TONES = 48  # values below are bark, the others leaves
_TONES = np.arange(256, dtype=np.float32)[:, None]
# Bright leaves turn yellowish.
_LEAF_RAMP = (0.28 + _TONES / 165) * (1 + np.maximum(_TONES - 150, 0) * (0.0016, 0.0004, 0))
_LEAF_RAMP = _LEAF_RAMP.astype(np.float32)
_BARK_RAMP = 0.4 + _TONES[:_TRUNK_TONES] / 40


@dataclass(frozen=True)
class Plant:
    """Pyramids of tone (bark below 48, leaves above) and opacity, and width over height."""

    tones: list[np.ndarray]
    opacity: list[np.ndarray]
    aspect: float


@cache
def plant(kind: str, variant: int) -> Plant:
    """A plant's picture, 256 texels high, lit from above."""
    rng = arrays("plant", kind, variant)
    height, width = 256, {"conifer": 128, "poplar": 96, "bush": 320}.get(kind, 224)
    tones = np.zeros((height, width), np.uint8)
    opacity = np.zeros((height, width), np.uint8)

    def leaf(x: float, y: float, radius: float, tone: float) -> None:
        centre, axes = (int(x), int(y)), (max(int(radius), 1), max(int(radius * 0.75), 1))
        angle = rng.uniform(0, 180)
        cv2.ellipse(tones, centre, axes, angle, 0, 360, int(np.clip(tone, 56, 255)), -1)
        cv2.ellipse(opacity, centre, axes, angle, 0, 360, 255, -1)

    def bark(points: list, thickness: int, tone: int) -> None:
        for image, value in ((tones, tone), (opacity, 255)):
            cv2.polylines(image, [np.array(points, np.int32)], False, value, thickness)

    middle = width / 2
    if kind == "broad":
        lean = rng.uniform(-10, 10)
        bark([(middle, 255), (middle + lean / 2, 170), (middle + lean, 110)], 11, 26)
        bark([(middle + 2, 255), (middle + 2 + lean / 2, 170)], 4, 40)
        for side in (-1, 1):
            bark([(middle + lean / 2, 175), (middle + side * 42, 115)], 5, 24)
        lobes = [
            (middle + rng.normal(0, 36), rng.uniform(40, 135), rng.uniform(30, 48))
            for _ in range(rng.integers(7, 11))
        ]
        for dark, count in ((0.5, 22), (1.0, 85)):
            for x, y, radius in lobes:
                for _ in range(count):
                    angle, reach = rng.uniform(0, 6.28), radius * rng.uniform(0, 1) ** 0.6
                    px, py = x + reach * np.cos(angle), y + reach * np.sin(angle) * 0.85
                    light = 175 - (py - y) / radius * 55 - (py - 80) * 0.35
                    size = rng.uniform(5, 10) if dark < 1 else rng.uniform(1.6, 5.5)
                    leaf(px, py, size, light * dark + rng.normal(0, 24))
    elif kind == "conifer":
        bark([(middle, 255), (middle, 120)], 8, 22)
        for y in np.arange(232, 6, -3.0):
            reach = (y - 2) / 232 * 56 * rng.uniform(0.75, 1.08)
            for _ in range(int(6 + reach / 3)):
                x = middle + rng.uniform(-1, 1) * reach
                light = 130 + (middle - x) * 0.5 + rng.normal(0, 24)
                leaf(x, y + abs(x - middle) * 0.25, rng.uniform(1.5, 4.5), light)
    elif kind == "poplar":
        bark([(middle, 255), (middle, 150)], 8, 26)
        for _ in range(1100):
            y = rng.uniform(6, 225)
            reach = 40 * np.sin(np.clip((y + 20) / 250, 0, 1) * np.pi) ** 0.7
            x = middle + rng.uniform(-1, 1) * reach
            leaf(x, y, rng.uniform(1.5, 4.5), 140 + (middle - x) * 0.9 + rng.normal(0, 26))
    elif kind == "palm":
        lean = rng.uniform(-26, 26)
        crown = (middle + lean, 62)
        bark([(middle, 255), (middle + lean * 0.4, 160), crown], 9, 34)
        for angle in np.linspace(0, 2 * np.pi, 17)[:-1] + rng.uniform(-0.15, 0.15, 16):
            tip = (crown[0] + 84 * np.cos(angle), crown[1] + 46 * np.sin(angle) + 26)
            bend = (crown[0] + 52 * np.cos(angle), crown[1] + 34 * np.sin(angle) - 16)
            tone = int(150 - 50 * np.sin(angle) + rng.normal(0, 18))
            curve = [
                (1 - t) ** 2 * np.array(crown)
                + 2 * t * (1 - t) * np.array(bend)
                + t * t * np.array(tip)
                for t in np.linspace(0, 1, 9)
            ]
            for start, end in pairwise(curve):
                points = np.array([start, end, end + np.array((0, 11)), start + np.array((0, 8))])
                points = points.astype(np.int32)
                cv2.fillConvexPoly(tones, points, int(np.clip(tone, 60, 250)))
                cv2.fillConvexPoly(opacity, points, 255)
    else:  # bush
        for dark, count in ((0.55, 150), (1.0, 800)):
            for _ in range(count):
                x = middle + rng.normal(0, 62)
                top = 60 + abs(x - middle) ** 1.6 * 0.06 + 20 * np.sin(x * 0.06 + variant)
                y = rng.uniform(min(top, 245), 250)
                light = 190 - (y - top) * 0.5 + rng.normal(0, 20)
                size = rng.uniform(6, 13) if dark < 1 else rng.uniform(2, 6)
                leaf(x, y, size, light * dark)
    # Leaves bleed into the outside, so that halving does not darken the rim.
    tones[opacity == 0] = 120
    return Plant(halvings(tones), halvings(opacity), width / height)


def plant_colours(
    leaves: tuple[float, float, float], bark: tuple[float, float, float]
) -> np.ndarray:
    """Lookup table [1, 256, 3], tone -> color."""
    table = _LEAF_RAMP * np.array(leaves, np.float32)
    table[:_TRUNK_TONES] = _BARK_RAMP * np.array(bark, np.float32)
    return np.minimum(table, 255, out=table).astype(np.uint8)[None]


# Parts of people and two-wheelers.
(
    NOTHING,
    SKIN,
    HAIR,
    TOP,
    TOP_DARK,
    TROUSERS,
    TROUSERS_DARK,
    SHOES,
    BAG,
    FRAME,
    TYRE,
    SPOKES,
    METAL,
    SEAT,
    LAMP,
    TAIL,
    HELMET,
) = range(17)

_VEHICLE_PARTS = (FRAME, TYRE, SPOKES, METAL, SEAT, LAMP, TAIL)
_SCALE = 100  # texels a meter


@dataclass(frozen=True)
class Figure:
    """Pyramid of part maps, and the size in meters."""

    parts: list[np.ndarray]
    width: float
    height: float


def _figure(parts: np.ndarray) -> Figure:
    levels = [parts]
    while min(levels[-1].shape) > 12:
        levels.append(levels[-1][1::2, 1::2].copy())
    return Figure(levels, parts.shape[1] / _SCALE, parts.shape[0] / _SCALE)


PEOPLE = 28
"""How many different pictures of pedestrians there are."""


@cache
def person(variant: int) -> Figure:
    """A pedestrian, 1.8 m high: from the front, the back or the side, in a phase of a step."""
    rng = draws("person", variant)
    image = np.zeros((182, 84), np.uint8)
    side_on = variant % 2 == 0
    x, stride = 42, rng.uniform(-0.9, 0.9)
    skirt = rng.random() < 0.25
    back = rng.random() < 0.4

    def limb(points: list, thickness: int, part: int) -> None:
        cv2.polylines(image, [np.array(points, np.int32)], False, part, thickness)

    if side_on:
        swing = stride * 22
        for sign, leg, arm in ((-1, TROUSERS_DARK, TOP_DARK), (1, TROUSERS, TOP)):
            foot = x + sign * swing
            limb([(x, 92), (x + sign * swing * 0.6 + 3, 132), (foot, 172)], 12, leg)
            limb([(foot - 3, 177), (foot + 9, 177)], 7, SHOES)
            if sign < 0:
                limb([(x, 42), (x + swing * 0.5, 68), (x + swing * 0.8 + 5, 90)], 8, arm)
        cv2.ellipse(image, (x, 62), (14, 34), 0, 0, 360, TOP, -1)
        if rng.random() < 0.35:
            cv2.ellipse(image, (x - 15, 56), (9, 18), 0, 0, 360, BAG, -1)
        limb([(x, 42), (x - swing * 0.5, 68), (x - swing * 0.8 + 5, 88)], 8, TOP_DARK)
        cv2.circle(image, (int(x - swing * 0.8 + 5), 91), 4, SKIN, -1)
    else:
        spread = abs(stride) * 6 + 7
        for sign, leg in ((-1, TROUSERS_DARK), (1, TROUSERS)):
            lift = 5 * (sign * stride > 0)
            limb(
                [(x + sign * 7, 92), (x + sign * spread, 134), (x + sign * spread, 172 - lift)],
                13,
                leg,
            )
            limb([(x + sign * spread, 177 - lift), (x + sign * (spread + 3), 177 - lift)], 8, SHOES)
        body = [(x - 20, 36), (x + 20, 36), (x + 16, 96), (x - 16, 96)]
        cv2.fillPoly(image, [np.array(body, np.int32)], TOP)
        for sign in (-1, 1):
            limb([(x + sign * 20, 41), (x + sign * 24, 66), (x + sign * 23, 88)], 9, TOP_DARK)
            cv2.circle(image, (x + sign * 23, 92), 4, SKIN, -1)
        if rng.random() < 0.3:
            cv2.ellipse(image, (x, 60), (13, 20), 0, 0, 360, BAG, -1)
    if skirt:
        hem = [(x - 12, 84), (x + 12, 84), (x + 19, 128), (x - 19, 128)]
        cv2.fillPoly(image, [np.array(hem, np.int32)], TROUSERS)
    cv2.rectangle(image, (x - 4, 26), (x + 4, 36), SKIN, -1)
    cv2.ellipse(image, (x + 2 * side_on, 18), (9, 12), 0, 0, 360, SKIN, -1)
    if back and not side_on:
        cv2.ellipse(image, (x, 18), (10, 13), 0, 0, 360, HAIR, -1)
    cv2.ellipse(image, (x - 3 * side_on, 14), (10, 11), 0, 180, 360, HAIR, -1)
    if rng.random() < 0.4:
        cv2.ellipse(image, (x - 7 * side_on, 24), (9, 14), 0, 90, 270, HAIR, -1)
    return _figure(image)


TWO_WHEELERS = 6
"""How many pictures there are of each two-wheeler and view."""


@cache
def two_wheeler(motor: bool, side_on: bool, ridden: bool, variant: int) -> Figure:
    """A bicycle or motorcycle from the side or from behind, with or without a rider."""
    rng = draws("two-wheeler", motor, side_on, ridden, variant)
    if side_on:
        return _figure(_side_view(motor, ridden, rng))
    return _figure(_rear_view(motor, ridden, rng))


def _side_view(motor: bool, ridden: bool, rng) -> np.ndarray:
    """Facing right, 2 m long."""
    height, ground = (178 if ridden else 118), (174 if ridden else 114)
    image = np.zeros((height, 204), np.uint8)
    radius = 31 if motor else 34
    rear, front = (44, ground - radius), (158, ground - radius)

    def bar(points: list, thickness: int, part: int) -> None:
        cv2.polylines(image, [np.array(points, np.int32)], False, part, thickness)

    if ridden:  # the far leg
        bar([(76, ground - 92), (104, ground - 70), (98, ground - 26)], 11, TROUSERS_DARK)
    for centre in (rear, front):
        cv2.circle(image, centre, radius, METAL if motor else SPOKES, -1)
        cv2.circle(image, centre, radius, TYRE, 9 if motor else 5)
        if not motor:
            for angle in np.arange(6) * np.pi / 6:
                dx, dy = int(radius * np.cos(angle)), int(radius * np.sin(angle))
                cv2.line(
                    image,
                    (centre[0] - dx, centre[1] - dy),
                    (centre[0] + dx, centre[1] + dy),
                    METAL,
                    1,
                )
        cv2.circle(image, centre, 5, TYRE, -1)
    if motor:
        bar([front, (146, ground - 84)], 7, METAL)
        bar([rear, (92, ground - 36)], 8, METAL)
        body = [(64, ground - 70), (84, ground - 82), (130, ground - 90), (142, ground - 72)]
        body += [(126, ground - 26), (84, ground - 24)]
        cv2.fillPoly(image, [np.array(body, np.int32)], FRAME)
        cv2.ellipse(image, (104, ground - 34), (22, 14), 0, 0, 360, METAL, -1)
        cv2.ellipse(image, (122, ground - 86), (20, 11), -10, 0, 360, FRAME, -1)
        seat = [
            (36, ground - 80),
            (58, ground - 86),
            (100, ground - 80),
            (98, ground - 70),
            (46, ground - 70),
        ]
        cv2.fillPoly(image, [np.array(seat, np.int32)], SEAT)
        bar([(20, ground - 62), (46, ground - 72)], 8, FRAME)
        cv2.circle(image, (22, ground - 66), 5, TAIL, -1)
        bar([(146, ground - 84), (136, ground - 100)], 5, METAL)
        cv2.ellipse(image, (152, ground - 84), (8, 9), 0, 0, 360, LAMP, -1)
        bar([(40, ground - 24), (96, ground - 22)], 8, METAL)
    else:
        hub, saddle, head = (96, ground - 30), (78, ground - 84), (142, ground - 86)
        for line in ([rear, saddle, hub, rear], [hub, head, saddle], [head, front]):
            bar(line, 6, FRAME)
        bar([head, (140, ground - 102), (152, ground - 102)], 5, METAL)
        bar([saddle, (76, ground - 94)], 5, METAL)
        bar([(64, ground - 95), (90, ground - 95)], 8, SEAT)
        cv2.circle(image, hub, 9, METAL, -1)
        if rng.random() < 0.4:
            bar([(26, ground - 70), (70, ground - 70)], 6, METAL)
    if ridden:
        hip, neck = (76, ground - 98), (106 + rng.randint(-6, 10), ground - 142)
        bar([hip, (112, ground - 76), (96, ground - 32)], 13, TROUSERS)
        bar([(94, ground - 28), (108, ground - 28)], 8, SHOES)
        bar([hip, neck], 28, TOP)
        bar([(neck[0] - 2, neck[1] + 6), (122, ground - 112), (140, ground - 102)], 10, TOP_DARK)
        cv2.circle(image, (141, ground - 102), 5, SKIN, -1)
        head = (neck[0] + 8, neck[1] - 14)
        cv2.ellipse(image, head, (9, 12), 0, 0, 360, SKIN, -1)
        cover = HELMET if motor or rng.random() < 0.5 else HAIR
        if motor:
            cv2.circle(image, head, 13, HELMET, -1)
            cv2.ellipse(image, (head[0] + 7, head[1]), (6, 5), 0, 0, 360, TYRE, -1)
        else:
            cv2.ellipse(image, (head[0] - 1, head[1] - 2), (11, 11), 0, 180, 360, cover, -1)
    return image


def _rear_view(motor: bool, ridden: bool, rng) -> np.ndarray:
    height, ground = (178 if ridden else 118), (175 if ridden else 115)
    image = np.zeros((height, 92), np.uint8)
    x = 46
    wheel = 9 if motor else 4
    cv2.ellipse(image, (x, ground - 32), (wheel, 33), 0, 0, 360, TYRE, -1)
    if motor:
        cv2.ellipse(image, (x, ground - 66), (19, 24), 0, 0, 360, FRAME, -1)
        cv2.rectangle(image, (x - 12, ground - 86), (x + 12, ground - 70), SEAT, -1)
        cv2.rectangle(image, (x - 9, ground - 64), (x + 9, ground - 57), TAIL, -1)
        cv2.rectangle(image, (x - 8, ground - 52), (x + 8, ground - 42), LAMP, -1)
        cv2.rectangle(image, (x + 12, ground - 40), (x + 19, ground - 20), METAL, -1)
    else:
        cv2.line(image, (x, ground - 60), (x, ground - 92), FRAME, 6)
        cv2.ellipse(image, (x, ground - 92), (11, 5), 0, 0, 360, SEAT, -1)
        cv2.rectangle(image, (x - 4, ground - 76), (x + 4, ground - 70), TAIL, -1)
        cv2.line(image, (x - 14, ground - 28), (x + 14, ground - 28), METAL, 4)
    cv2.line(image, (x - 30, ground - 103), (x + 30, ground - 103), METAL, 5)
    if not ridden:
        return image
    for sign in (-1, 1):
        lift = rng.randint(0, 16) if not motor else 4
        knee = (x + sign * 19, ground - 70)
        leg = [(x + sign * 9, ground - 96), knee, (x + sign * 16, ground - 28 - lift)]
        cv2.polylines(
            image, [np.array(leg, np.int32)], False, (TROUSERS, TROUSERS_DARK)[sign > 0], 13
        )
        cv2.circle(image, (x + sign * 16, ground - 24 - lift), 6, SHOES, -1)
        arm = [
            (x + sign * 18, ground - 136),
            (x + sign * 30, ground - 116),
            (x + sign * 28, ground - 104),
        ]
        cv2.polylines(image, [np.array(arm, np.int32)], False, TOP_DARK, 10)
    back = [
        (x - 20, ground - 142),
        (x + 20, ground - 142),
        (x + 17, ground - 90),
        (x - 17, ground - 90),
    ]
    cv2.fillPoly(image, [np.array(back, np.int32)], TOP)
    if rng.random() < 0.35:
        cv2.ellipse(image, (x, ground - 120), (13, 18), 0, 0, 360, BAG, -1)
    cv2.ellipse(image, (x, ground - 156), (9, 12), 0, 0, 360, SKIN, -1)
    cover = HELMET if motor or rng.random() < 0.5 else HAIR
    cv2.ellipse(image, (x, ground - 159), (12, 13), 0, 0, 360, cover, -1)
    return image


_CLOTHES = (
    (36, 40, 52),
    (60, 64, 70),
    (150, 40, 44),
    (40, 72, 130),
    (206, 204, 198),
    (96, 112, 84),
    (200, 160, 60),
    (120, 80, 110),
    (70, 130, 140),
    (214, 110, 50),
    (130, 100, 76),
)
_TROUSERS = ((40, 50, 78), (34, 34, 38), (90, 84, 74), (70, 76, 84), (130, 116, 94), (54, 62, 58))
_SKIN = ((224, 178, 148), (196, 146, 112), (140, 96, 70), (96, 66, 50), (236, 196, 170))
_HAIR = ((34, 28, 26), (84, 58, 40), (150, 116, 70), (120, 118, 116), (60, 40, 34))
_PAINT = (
    (170, 30, 34),
    (30, 34, 38),
    (36, 70, 140),
    (210, 208, 200),
    (60, 130, 80),
    (226, 150, 30),
)


def figure_colours(rng) -> np.ndarray:
    """Chance colors of one figure: lookup table [17, 4], part -> premultiplied color, opacity."""
    table = np.zeros((17, 4), np.float32)
    top, trousers = np.array(rng.choice(_CLOTHES)), np.array(rng.choice(_TROUSERS))
    frame = np.array(rng.choice(_PAINT))
    colours = {
        SKIN: rng.choice(_SKIN),
        HAIR: rng.choice(_HAIR),
        TOP: top,
        TOP_DARK: top * 0.78,
        TROUSERS: trousers,
        TROUSERS_DARK: trousers * 0.72,
        SHOES: (38, 34, 32),
        BAG: rng.choice(_CLOTHES),
        FRAME: frame,
        TYRE: (26, 26, 28),
        SPOKES: (40, 42, 44),
        METAL: (120, 124, 128),
        SEAT: (30, 28, 28),
        LAMP: (236, 232, 200),
        TAIL: (200, 30, 26),
        HELMET: rng.choice(_PAINT),
    }
    for part, colour in colours.items():
        table[part, :3] = np.asarray(colour, np.float32) * (0.85 + 0.3 * rng.random())
        table[part, 3] = 255
    table[SPOKES] *= 0.35
    return np.clip(table, 0, 255).astype(np.uint8)


def figure_labels(vehicle: int | None) -> np.ndarray:
    """Lookup table part -> label: a rider on ``vehicle``'s id, or a person on foot."""
    table = np.full(17, ids.PERSON if vehicle is None else ids.RIDER, np.uint8)
    table[NOTHING] = 0
    if vehicle is not None:
        table[list(_VEHICLE_PARTS)] = vehicle
    return table
