"""Painters of lots and things, called from back to front."""

import math

import cv2
import numpy as np

from . import ids, textures
from .canvas import Canvas, Colour
from .keys import draws
from .layout import Lot, Street, Thing
from .light import Light
from .sprites import figure_colours, figure_labels, person, plant, plant_colours, two_wheeler
from .vehicles import paint_vehicle

_NEAREST = 1.6  # lots are cut off this close to the camera
_POLE = (96, 100, 102)
_REACH = {
    "plant": 6.0,
    "vehicle": 10.0,
    "gantry": 14.0,
    "signal": 5.0,
    "lamp": 2.5,
    "guardrail": 60.0,
}


def paint_street(canvas: Canvas, street: Street, light: Light) -> None:
    """Paint everything that stands, far things first.

    A lot is painted when its far end's turn comes, so that whatever stands before it comes later.
    """
    order = [(lot.z1 + 0.01, lot) for lot in street.lots if lot.z1 > _NEAREST + 0.5]
    for thing in street.things:
        if thing.z < 1.2:
            continue
        # How far a thing reaches to its sides, in pixels, against the picture's edges.
        u, _, depth = canvas.camera.point(thing.s, 0.0, thing.z)
        reach = _REACH.get(thing.kind, 1.0) * canvas.camera.focal / depth
        if -reach < u < canvas.camera.width + reach:
            order.append((thing.z, thing))
    order.sort(key=lambda item: -item[0])
    for _, item in order:
        if isinstance(item, Lot):
            _LOTS[item.kind](canvas, item, light)
        else:
            _THINGS[item.kind](canvas, light, item)


def _times(a, b) -> Colour:
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


def _toned(colour: Colour, gain: Colour) -> Colour:
    return (
        min(colour[0] * gain[0], 255.0),
        min(colour[1] * gain[1], 255.0),
        min(colour[2] * gain[2], 255.0),
    )


def _side_quad(lot: Lot, height: float, z0: float) -> np.ndarray:
    """The side that faces the road, seen from the road: top left first."""
    s = lot.side * lot.front
    near, far = (s, z0), (s, lot.z1)
    left, right = (far, near) if lot.side > 0 else (near, far)
    return np.array(
        [
            (left[0], height, left[1]),
            (right[0], height, right[1]),
            (right[0], 0.0, right[1]),
            (left[0], 0.0, left[1]),
        ]
    )


def _building(canvas: Canvas, lot: Lot, light: Light) -> None:
    z0 = max(lot.z0, _NEAREST)
    levels = textures.facade(*lot.style[:2], str(lot.style[2]))
    side, front, back = lot.side, lot.front, lot.front + lot.depth
    toward, end = light.gain((-float(side), 0.0, 0.0)), light.gain((0.0, 0.0, -1.0))
    pitched = lot.roof is not None
    ridge = lot.height + lot.depth * 0.36
    middle = (front + back) / 2
    bottom = textures.FLOORS * textures.FLOOR
    rows = lot.floors * textures.FLOOR
    if lot.z0 > _NEAREST and not lot.end_hidden:
        # The end that faces the camera.
        a, b = (front, back) if side > 0 else (-back, -front)
        if pitched:
            gable = np.array(
                [
                    (side * front, lot.height, z0),
                    (side * middle, ridge, z0),
                    (side * back, lot.height, z0),
                ]
            )
            plain = levels[-1][0, 0]
            canvas.face(
                gable, _toned(tuple(int(c) for c in plain), _times(end, lot.tint)), ids.BUILDING
            )
        quad = np.array([(a, lot.height, z0), (b, lot.height, z0), (b, 0.0, z0), (a, 0.0, z0)])
        columns = min(int(lot.depth / 3), textures.BAYS) * textures.BAY
        crop = (0, bottom - rows, columns, bottom)
        if lot.bay % 3 == 0:  # a blank gable wall
            crop = (0, bottom - rows, 14, bottom)
        canvas.texture(levels, crop, quad, _times(end, lot.tint), ids.BUILDING)
    bays = max(int((lot.z1 - lot.z0) / 3), 1)
    bays = min(bays, textures.BAYS)
    begin = lot.bay % (textures.BAYS - bays + 1)
    cut = (z0 - lot.z0) / (lot.z1 - lot.z0)
    x0, x1 = begin * textures.BAY, (begin + bays) * textures.BAY
    if side > 0:
        x1 -= cut * (x1 - x0)
    else:
        x0 += cut * (x1 - x0)
    quad = _side_quad(lot, lot.height, z0)
    canvas.texture(
        levels, (x0, bottom - rows, x1, bottom), quad, _times(toward, lot.tint), ids.BUILDING
    )
    if lot.z0 > 70 and not pitched:
        return
    if pitched:
        slope = np.array(
            [
                (side * (front - 0.35), lot.height - 0.15, z0),
                (side * (front - 0.35), lot.height - 0.15, lot.z1),
                (side * middle, ridge, lot.z1),
                (side * middle, ridge, z0),
            ]
        )
        gain = light.gain((-0.6 * side, 0.8, 0.0))
        canvas.face(slope, _toned(lot.roof, gain), ids.BUILDING)
        eave = np.array([slope[0], slope[1], slope[1] - (0, 0.18, 0), slope[0] - (0, 0.18, 0)])
        canvas.face(eave, _toned(lot.roof, _times(toward, (0.62, 0.62, 0.62))), ids.BUILDING)
    else:
        cornice = np.array(
            [
                (side * (front - 0.25), lot.height + 0.25, z0),
                (side * (front - 0.25), lot.height + 0.25, lot.z1),
                (side * (front - 0.25), lot.height - 0.2, lot.z1),
                (side * (front - 0.25), lot.height - 0.2, z0),
            ]
        )
        colour = tuple(int(c) for c in levels[-1].mean(axis=(0, 1)))
        canvas.face(cornice, _toned(colour, _times(toward, (0.95, 0.95, 0.95))), ids.BUILDING)
        if lot.z0 > _NEAREST:
            a, b = side * (front - 0.25), side * back
            edge = np.array(
                [
                    (a, lot.height + 0.25, z0),
                    (b, lot.height + 0.25, z0),
                    (b, lot.height - 0.2, z0),
                    (a, lot.height - 0.2, z0),
                ]
            )
            canvas.face(edge, _toned(colour, _times(end, (0.9, 0.9, 0.9))), ids.BUILDING)


def _strip(canvas: Canvas, lot: Lot, light: Light, levels: list, label: int) -> None:
    """A wall or fence along the road, in pieces of 12 m, longer ones far away."""
    gain = _times(light.gain((-float(lot.side), 0.0, 0.0)), lot.tint)
    end = lot.z1
    texels = 512 / 12
    while end > max(lot.z0, _NEAREST) + 0.05:
        begin = max(lot.z0, end - (12 if end < 45 else 30), _NEAREST)
        piece = Lot(lot.side, begin, end, lot.kind, lot.front)
        quad = _side_quad(piece, lot.height, begin)
        across = min((end - begin) * texels, 512)
        canvas.texture(levels, (0, 0, across, 64), quad, gain, label)
        end = begin


def _wall(canvas: Canvas, lot: Lot, light: Light) -> None:
    _strip(canvas, lot, light, textures.wall(*lot.style), ids.WALL)
    if lot.z0 > _NEAREST:
        a, b = lot.side * lot.front, lot.side * (lot.front + 0.3)
        tops = [(a, lot.height), (b, lot.height), (b, 0.0), (a, 0.0)]
        face = np.array([(s, y, lot.z0) for s, y in tops])
        tone = textures.wall(*lot.style)[-1].mean(axis=(0, 1))
        canvas.face(face, _toned(tuple(tone), _times(light.gain((0, 0, -1.0)), lot.tint)), ids.WALL)


def _fence(canvas: Canvas, lot: Lot, light: Light) -> None:
    _strip(canvas, lot, light, textures.fence(*lot.style), ids.FENCE)


def _hedge(canvas: Canvas, lot: Lot, light: Light) -> None:
    """Bushes shoulder to shoulder."""
    rng = draws("hedge", lot.bay, round(lot.z0, 3))
    leaves = _times((74 + lot.bay % 30, 104 + lot.bay % 20, 46), lot.tint)
    z = lot.z1
    while z > max(lot.z0, 2.2):
        what = {
            "plant": "bush",
            "variant": rng.randrange(6),
            "height": lot.height * rng.uniform(1.0, 1.25),
            "leaves": leaves,
            "flip": rng.random() < 0.5,
        }
        _plant(canvas, light, Thing("plant", lot.side * (lot.front + 0.7), z, what))
        z -= 0.75 + 0.02 * z


def _plant(canvas: Canvas, light: Light, thing: Thing) -> None:
    what = thing.what
    picture = plant(what["plant"], what["variant"])
    u, v, depth = canvas.camera.point(thing.s, 0.0, thing.z)
    tall = what["height"] * canvas.camera.focal / depth
    wide = tall * picture.aspect
    if u + wide / 2 < 0 or u - wide / 2 > canvas.camera.width or tall < 2:
        return
    level = min(max(int(math.log2(max(256 / tall, 1.0)) + 0.3), 0), len(picture.tones) - 1)
    tones, opacity = picture.tones[level], picture.opacity[level]
    if what["flip"]:
        tones, opacity = tones[:, ::-1], opacity[:, ::-1]
    gain = light.upright
    table = plant_colours(_times(what["leaves"], gain), _times((104, 84, 66), gain))
    # Only rows inside the picture are coloured: near crowns reach far above it.
    top = v - tall
    skip = 0
    if top < -tall * 0.1:
        skip = int(-top / tall * tones.shape[0])
        tones, opacity = tones[skip:], opacity[skip:]
        if not len(tones):
            return
        top += skip / picture.tones[level].shape[0] * tall
    colours = cv2.LUT(cv2.cvtColor(np.ascontiguousarray(tones), cv2.COLOR_GRAY2RGB), table)
    opacity = np.ascontiguousarray(opacity)
    colours = cv2.multiply(colours, cv2.cvtColor(opacity, cv2.COLOR_GRAY2RGB), scale=1 / 255)
    packed = cv2.merge((*cv2.split(colours), opacity))
    labels = np.array([[ids.VEGETATION]], np.uint8)
    canvas.sprite(packed, labels, u - wide / 2, top, u + wide / 2, v, depth, (1.0, 1.0, 1.0))


def _figure(canvas, light: Light, thing: Thing, figure, height: float, labels: np.ndarray) -> None:
    """Paste a person or two-wheeler, ``height`` meters high."""
    u, v, depth = canvas.camera.point(thing.s, 0.0, thing.z)
    tall = height * canvas.camera.focal / depth
    wide = tall * figure.width / figure.height
    texels = figure.parts[0].shape[0]
    level = min(max(int(math.log2(max(texels / max(tall, 1), 1.0))), 0), len(figure.parts) - 1)
    parts = figure.parts[level]
    if thing.what["flip"]:
        parts = parts[:, ::-1]
    colours = figure_colours(draws("colours", thing.what["colours"]))
    packed = colours[parts]
    gain = light.upright
    canvas.sprite(packed, labels[parts], u - wide / 2, v - tall, u + wide / 2, v + 0.5, depth, gain)


def _person(canvas: Canvas, light: Light, thing: Thing) -> None:
    figure = person(thing.what["variant"])
    _figure(canvas, light, thing, figure, thing.what["height"], figure_labels(None))


def _two_wheeler(canvas: Canvas, light: Light, thing: Thing) -> None:
    what = thing.what
    figure = two_wheeler(what["motor"], what["side_on"], what["ridden"], what["variant"])
    vehicle = ids.MOTORCYCLE if what["motor"] else ids.BICYCLE
    _figure(canvas, light, thing, figure, figure.height, figure_labels(vehicle))


def _vehicle(canvas: Canvas, light: Light, thing: Thing) -> None:
    paint_vehicle(canvas, light, thing.s, thing.z, thing.what)


def _lamp(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z, side = thing.s, thing.z, thing.what["side"]
    tone = _toned(_POLE, light.upright)
    height = thing.what["height"]
    canvas.line((s, 0, z), (s, height, z), 0.14, tone, ids.POLE)
    if thing.what["style"] == "top":
        head = [
            (s - 0.18, height),
            (s + 0.18, height),
            (s + 0.26, height + 0.5),
            (s - 0.26, height + 0.5),
        ]
        canvas.face(
            np.array([(x, y, z) for x, y in head]), _toned((212, 210, 196), light.upright), ids.POLE
        )
    else:
        tip = s - side * 1.9
        canvas.line((s, height, z), (tip, height + 0.35, z), 0.1, tone, ids.POLE)
        canvas.line(
            (tip + side * 0.5, height + 0.3, z),
            (tip - side * 0.2, height + 0.38, z),
            0.2,
            _toned((170, 172, 170), light.upright),
            ids.POLE,
        )


def _telegraph(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z = thing.s, thing.z
    tone = _toned((108, 88, 70), light.upright)
    canvas.line((s, 0, z), (s, 7.6, z), 0.22, tone, ids.POLE)
    for y in (7.2, 6.6):
        canvas.line((s - 0.8, y, z), (s + 0.8, y, z), 0.12, tone, ids.POLE)


_SIGNALS = {"red": 0, "amber": 1, "green": 2}
_SHINE = ((255, 56, 40), (255, 190, 50), (60, 235, 140))
_DIM = ((70, 22, 20), (72, 56, 20), (18, 58, 34))


def _signal_head(canvas: Canvas, s: float, y: float, z: float, state: int, facing: bool) -> None:
    """A box of three lamps, 1.2 m high; from behind only the box shows."""
    box = np.array(
        [(s - 0.24, y, z), (s + 0.24, y, z), (s + 0.24, y + 1.2, z), (s - 0.24, y + 1.2, z)]
    )
    canvas.face(box, (34, 36, 34), ids.LIGHT)
    if not facing:
        return
    for lamp in range(3):
        u, v, depth = canvas.camera.point(s, y + 0.98 - 0.37 * lamp, z)
        radius = 0.16 * canvas.camera.focal / depth
        lit = lamp == state
        colour = _SHINE[lamp] if lit else _DIM[lamp]
        if radius >= 0.8:
            angles = np.arange(8) * math.pi / 4
            disc = np.stack([u + radius * np.cos(angles), v + radius * np.sin(angles)], axis=1)
            canvas.polygon(disc, colour, ids.LIGHT)
        elif lit and 0 <= int(u) < canvas.camera.width and 0 <= int(v) < canvas.camera.height:
            canvas.pixels[int(v), int(u), :3] = colour
            canvas.pixels[int(v), int(u), 3] = ids.LIGHT
        if lit:
            canvas.lamps.append((u, v, depth, colour))


def _signal(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z, side = thing.s, thing.z, thing.what["side"]
    state = _SIGNALS[thing.what["state"]]
    tone = _toned((70, 74, 74), light.upright)
    tall = 5.6 if thing.what["overhead"] else 3.4
    canvas.line((s, 0, z), (s, tall, z), 0.16, tone, ids.POLE)
    facing = side == 1
    if thing.what["overhead"]:
        tip = s - side * 4.2
        canvas.line((s, tall, z), (tip, tall + 0.1, z), 0.13, tone, ids.POLE)
        _signal_head(canvas, tip, tall - 0.6, z - 0.1, state, facing)
    _signal_head(canvas, s - side * 0.1, 2.5, z - 0.1, state, facing)


def _board(
    canvas: Canvas, light: Light, kind: str, s: float, y: float, z: float, size: float
) -> None:
    """A sign's face, ``size`` meters high, its middle at height y."""
    face = textures.sign(kind)
    u, v, depth = canvas.camera.point(s, y, z)
    tall = size * canvas.camera.focal / depth
    wide = tall * face.shape[1] / face.shape[0]
    while face.shape[0] > 2 * tall and face.shape[0] > 4:
        face = cv2.resize(face, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    gain = tuple(0.25 + 0.75 * g for g in light.gain((0, 0.2, -1.0)))
    labels = np.array([[ids.SIGN]], np.uint8)
    canvas.sprite(face, labels, u - wide / 2, v - tall / 2, u + wide / 2, v + tall / 2, depth, gain)


def _sign(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z, height, size = thing.s, thing.z, thing.what["height"], thing.what["size"]
    canvas.line(
        (s, 0, z), (s, height + size / 2, z), 0.08, _toned((132, 136, 138), light.upright), ids.POLE
    )
    if thing.what["sign"] == "guide":
        size *= 0.9
    _board(canvas, light, thing.what["sign"], s, height, z - 0.05, size)


def _gantry(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z = thing.s, thing.z
    tone = _toned((120, 124, 126), light.upright)
    canvas.line((s, 0, z), (s, 6.6, z), 0.26, tone, ids.POLE)
    canvas.line((s, 6.2, z), (s - 8.5, 6.2, z), 0.18, tone, ids.POLE)
    for i in range(thing.what["boards"]):
        _board(canvas, light, "guide", s - 3.0 - 4.1 * i, 5.9, z - 0.1, 1.5)


def _bin(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z = thing.s, thing.z
    tone = thing.what["colour"]
    body = [(s - 0.27, 0.0), (s + 0.27, 0.0), (s + 0.3, 0.95), (s - 0.3, 0.95)]
    canvas.face(np.array([(x, y, z) for x, y in body]), _toned(tone, light.upright), ids.OTHER)
    lid = [(s - 0.32, 0.92), (s + 0.32, 0.92), (s + 0.26, 1.08), (s - 0.26, 1.08)]
    dark = _times(tone, (0.7, 0.7, 0.7))
    canvas.face(np.array([(x, y, z) for x, y in lid]), _toned(dark, light.upright), ids.OTHER)


def _bollard(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, z = thing.s, thing.z
    canvas.line((s, 0, z), (s, 0.9, z), 0.12, _toned((70, 72, 74), light.upright), ids.POLE)
    canvas.line((s, 0.7, z), (s, 0.8, z), 0.13, _toned((214, 214, 208), light.upright), ids.POLE)


def _guardrail(canvas: Canvas, light: Light, thing: Thing) -> None:
    s, end, begin = thing.s, thing.z, thing.what["from"]
    side = 1.0 if s > 0 else -1.0
    gain = light.gain((-side, 0.2, 0.0))
    z = end
    while z > begin:
        near = max(z - 6, begin)
        canvas.line(
            (s, 0, near), (s, 0.5, near), 0.12, _toned((120, 122, 124), gain), ids.GUARDRAIL
        )
        rail = np.array([(s, 0.42, z), (s, 0.75, z), (s, 0.75, near), (s, 0.42, near)])
        canvas.face(rail, _toned((176, 180, 184), gain), ids.GUARDRAIL)
        z = near


_LOTS = {"building": _building, "wall": _wall, "fence": _fence, "hedge": _hedge}
_THINGS = {
    "plant": _plant,
    "person": _person,
    "two_wheeler": _two_wheeler,
    "vehicle": _vehicle,
    "lamp": _lamp,
    "telegraph": _telegraph,
    "signal": _signal,
    "sign": _sign,
    "gantry": _gantry,
    "bin": _bin,
    "bollard": _bollard,
    "guardrail": _guardrail,
}
