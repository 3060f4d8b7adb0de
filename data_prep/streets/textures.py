"""Textures made once per process: noise, clouds, facades, walls, fences, signs.

Facades measure 20 texels a meter: eight bays of 3 m and ten floors of 3.2 m, shops or doors below.
"""

import math
from functools import lru_cache

import cv2
import numpy as np

from .canvas import halvings
from .keys import arrays, draws

BAY, FLOOR = 60, 64
BAYS, FLOORS = 8, 10
RGB = tuple[int, int, int]


@lru_cache(maxsize=16)
def noise(size: int, cells: int, octaves: int, name: str) -> np.ndarray:
    """Tileable fractal noise float32 [size, size], mean 0, deviation 1; ``cells`` in octave one."""
    rng = arrays("noise", name)
    total = np.zeros((size, size), np.float32)
    for octave in range(octaves):
        count = min(cells << octave, size)
        grid = rng.standard_normal((count, count)).astype(np.float32)
        step = size // count
        grid = np.pad(grid, 2, mode="wrap")
        large = cv2.resize(grid, None, fx=step, fy=step, interpolation=cv2.INTER_CUBIC)
        total += large[2 * step : 2 * step + size, 2 * step : 2 * step + size] * 0.6**octave
    return (total - total.mean()) / total.std()


_STEPS = 30  # steps of a stored noise a deviation


@lru_cache(maxsize=16)
def _stored_noise(cells: int, octaves: int, name: str) -> np.ndarray:
    """Noise int8 [512 * 512]: small enough to stay in a core's cache."""
    field = noise(512, cells, octaves, name) * _STEPS
    return np.clip(np.rint(field), -127, 127).astype(np.int8).ravel()


def noise_at(
    cells: int, octaves: int, name: str, across: np.ndarray, along: np.ndarray
) -> np.ndarray:
    """Fractal noise, deviation 1, at whole positions in a tile of 512; the two broadcast."""
    index = ((along & 511) << 9) + (across & 511)
    return _stored_noise(cells, octaves, name).take(index) * np.float32(1 / _STEPS)


@lru_cache(maxsize=2)
def clouds() -> np.ndarray:
    """Cloud density, float32 [512, 1664], 0 to 1; every window 640 wide is another sky."""
    field = noise(1024, 4, 7, "clouds")[:512]
    field = np.clip(field * 0.25 + 0.5, 0, 1)
    return np.concatenate([field, field[:, :640]], axis=1)


def _dirty(image: np.ndarray, strength: float, name: str) -> np.ndarray:
    """Stains and grain over a painted wall."""
    h, w = image.shape[:2]
    stains = noise(1024, 8, 6, "stains")
    shift = draws("stains", name).randrange(300)
    factor = 1 + strength * stains[shift : shift + h, shift : shift + w][..., None]
    return np.clip(image * factor, 0, 255).astype(np.uint8)


def _shaded(colour: RGB, factor: float) -> RGB:
    return tuple(int(min(max(channel * factor, 0), 255)) for channel in colour)


def _box(image: np.ndarray, x0: float, y0: float, x1: float, y1: float, colour: RGB) -> None:
    cv2.rectangle(image, (int(x0), int(y0)), (int(x1), int(y1)), colour, -1)


def _glass(image: np.ndarray, x0: float, y0: float, x1: float, y1: float, rng) -> None:
    """A pane: dark, with a reflection of the sky in its upper part, sometimes a curtain."""
    base = rng.choice(((44, 56, 70), (58, 72, 86), (34, 42, 50), (76, 92, 106)))
    _box(image, x0, y0, x1, y1, base)
    if rng.random() < 0.6:
        _box(image, x0, y0, x1, y0 + (y1 - y0) * rng.uniform(0.2, 0.5), _shaded(base, 1.5))
    if rng.random() < 0.35:
        curtain = rng.choice(((196, 190, 178), (170, 160, 150), (208, 202, 190)))
        if rng.random() < 0.5:
            _box(image, x0, y0, x1, y0 + (y1 - y0) * rng.uniform(0.15, 0.6), curtain)
        else:
            _box(image, x0, y0, x0 + (x1 - x0) * 0.25, y1, curtain)
            _box(image, x1 - (x1 - x0) * 0.25, y0, x1, y1, curtain)


def _brickwork(image: np.ndarray, colour: RGB, rng) -> None:
    """Courses of bricks, 5 texels high."""
    h, w = image.shape[:2]
    tones = arrays("bricks", rng.random()).normal(1, 0.09, (h // 5 + 1, w // 12 + 2))
    rows = np.arange(h) // 5
    columns = (np.arange(w)[None] + (rows[:, None] % 2) * 6) // 12
    image[:] = np.clip(np.array(colour) * tones[rows[:, None], columns][..., None], 0, 255)
    mortar = np.arange(h) % 5 == 0
    image[mortar] = np.clip(image[mortar] * 0.55 + 70, 0, 255).astype(np.uint8)


FACADES: dict[str, tuple[RGB, ...]] = {
    "plaster": (
        (226, 204, 160),
        (206, 150, 116),
        (232, 224, 206),
        (190, 196, 170),
        (216, 178, 126),
        (176, 110, 92),
        (198, 206, 214),
    ),
    "brick": ((150, 78, 60), (128, 66, 54), (166, 104, 78), (112, 80, 68)),
    "glass": ((92, 116, 134), (70, 92, 104), (110, 128, 132), (60, 74, 96)),
    "panel": ((186, 184, 178), (164, 168, 172), (200, 188, 170), (150, 158, 150)),
    "siding": ((222, 222, 214), (150, 168, 182), (206, 196, 150), (130, 60, 54), (118, 136, 112)),
    "corrugated": ((150, 160, 168), (96, 118, 140), (170, 166, 150), (140, 84, 66)),
    "adobe": ((222, 196, 152), (236, 220, 190), (206, 168, 124), (230, 230, 222)),
    "stone": ((168, 156, 138), (146, 138, 126), (184, 172, 150)),
}


@lru_cache(maxsize=96)
def facade(style: str, colour: RGB, name: str) -> list[np.ndarray]:
    """Texture pyramid of a facade; ``name`` fixes its chance details."""
    rng = draws("facade", style, colour, name)
    image = np.full((FLOORS * FLOOR, BAYS * BAY, 3), colour, np.uint8)
    if style == "brick":
        _brickwork(image, colour, rng)
    image = _dirty(image, 0.05 if style == "glass" else 0.075, name)
    paint = _FACADE_PAINTERS[style]
    paint(image, colour, rng)
    return halvings(image)


def _plaster(image: np.ndarray, colour: RGB, rng) -> None:
    frame = rng.choice(((240, 236, 226), (206, 196, 176), _shaded(colour, 0.7)))
    shutters = rng.choice((None, (70, 96, 76), (110, 66, 50), (76, 94, 116), None))
    width = rng.uniform(0.34, 0.46)
    for floor in range(FLOORS - 1):
        y = floor * FLOOR
        if rng.random() < 0.4:
            _box(image, 0, y + 60, image.shape[1], y + 63, _shaded(colour, 0.82))
        for bay in range(BAYS):
            x0, x1 = (bay + 0.5 - width / 2) * BAY, (bay + 0.5 + width / 2) * BAY
            _box(image, x0 - 4, y + 10, x1 + 4, y + 51, frame)
            _glass(image, x0, y + 14, x1, y + 48, rng)
            _box(image, (x0 + x1) / 2 - 1, y + 14, (x0 + x1) / 2, y + 48, frame)
            _box(image, x0 - 6, y + 51, x1 + 6, y + 53, _shaded(frame, 0.85))
            if shutters:
                tone = _shaded(shutters, rng.uniform(0.85, 1.15))
                _box(image, x0 - 15, y + 12, x0 - 5, y + 50, tone)
                _box(image, x1 + 5, y + 12, x1 + 15, y + 50, tone)
    _shops(image, colour, rng)


def _brick(image: np.ndarray, colour: RGB, rng) -> None:
    lintel = rng.choice(((214, 204, 184), (186, 178, 166), _shaded(colour, 0.6)))
    width = rng.uniform(0.36, 0.55)
    for floor in range(FLOORS - 1):
        y = floor * FLOOR
        for bay in range(BAYS):
            x0, x1 = (bay + 0.5 - width / 2) * BAY, (bay + 0.5 + width / 2) * BAY
            _box(image, x0 - 4, y + 7, x1 + 4, y + 13, lintel)
            _glass(image, x0, y + 14, x1, y + 50, rng)
            _box(image, x0, y + 31, x1, y + 32, (226, 224, 216))
            _box(image, (x0 + x1) / 2 - 1, y + 14, (x0 + x1) / 2, y + 50, (226, 224, 216))
            _box(image, x0 - 5, y + 50, x1 + 5, y + 53, lintel)
    _shops(image, colour, rng)


def _glass_tower(image: np.ndarray, colour: RGB, rng) -> None:
    mullion = rng.choice(((60, 66, 72), (150, 156, 160), (196, 200, 204)))
    for floor in range(FLOORS):
        y = floor * FLOOR
        for pane in range(BAYS * 2):
            x = pane * BAY // 2
            tone = _shaded(colour, rng.uniform(0.75, 1.3))
            _box(image, x, y, x + BAY // 2, y + 44, tone)
            if rng.random() < 0.25:
                cv2.line(image, (x + 4, y + 40), (x + 24, y + 6), _shaded(tone, 1.25), 3)
        _box(image, 0, y + 46, image.shape[1], y + FLOOR, _shaded(colour, 0.62))
        _box(image, 0, y + 44, image.shape[1], y + 46, mullion)
    for pane in range(BAYS * 2 + 1):
        _box(image, pane * BAY // 2 - 1, 0, pane * BAY // 2, image.shape[0], mullion)
    _shops(image, _shaded(colour, 0.8), rng)


def _panel(image: np.ndarray, colour: RGB, rng) -> None:
    accent = rng.choice(((176, 96, 70), (92, 124, 142), (200, 170, 90), _shaded(colour, 0.8)))
    balconies = [rng.random() < 0.4 for _ in range(BAYS)]
    for floor in range(FLOORS - 1):
        y = floor * FLOOR
        for bay in range(BAYS):
            x = bay * BAY
            cv2.rectangle(image, (x, y), (x + BAY, y + FLOOR), _shaded(colour, 0.8), 1)
            if balconies[bay]:
                _box(image, x + 5, y + 6, x + 55, y + 58, _shaded(colour, 0.5))
                _glass(image, x + 14, y + 12, x + 44, y + 40, rng)
                _box(image, x + 3, y + 38, x + 57, y + 60, accent)
                _box(image, x + 3, y + 38, x + 57, y + 40, _shaded(accent, 1.3))
            else:
                _glass(image, x + 12, y + 16, x + 48, y + 46, rng)
                _box(image, x + 29, y + 16, x + 30, y + 46, (220, 220, 216))
    _doors(image, colour, rng)


def _siding(image: np.ndarray, colour: RGB, rng) -> None:
    image[::6] = (image[::6] * 0.8).astype(np.uint8)
    trim = rng.choice(((244, 244, 238), (92, 70, 58)))
    for floor in range(FLOORS):
        y = floor * FLOOR
        for bay in range(BAYS):
            if rng.random() < 0.25:
                continue
            x0, x1 = bay * BAY + 16, bay * BAY + 44
            _box(image, x0 - 4, y + 12, x1 + 4, y + 48, trim)
            _glass(image, x0, y + 15, x1, y + 45, rng)
            _box(image, x0, y + 30, x1, y + 31, trim)
    _doors(image, colour, rng)


def _corrugated(image: np.ndarray, colour: RGB, rng) -> None:
    for x in range(0, image.shape[1], 8):
        image[:, x : x + 3] = (image[:, x : x + 3] * 0.84).astype(np.uint8)
    for floor in range(0, FLOORS - 1, 2):
        y = floor * FLOOR
        for bay in range(BAYS):
            _glass(image, bay * BAY + 3, y + 12, bay * BAY + 57, y + 30, rng)
    y = (FLOORS - 1) * FLOOR
    for bay in range(0, BAYS, 2):
        if rng.random() < 0.6:
            gate = rng.choice(((186, 188, 186), (70, 96, 130), (120, 60, 50)))
            _box(image, bay * BAY + 8, y - 4, bay * BAY + 92, y + 63, gate)
            for line in range(y, y + 64, 8):
                _box(image, bay * BAY + 8, line, bay * BAY + 92, line + 1, _shaded(gate, 0.8))


def _adobe(image: np.ndarray, colour: RGB, rng) -> None:
    for floor in range(FLOORS - 1):
        y = floor * FLOOR
        for bay in range(BAYS):
            if rng.random() < 0.3:
                continue
            x = bay * BAY + rng.randint(14, 22)
            _box(image, x - 2, y + 16, x + 24, y + 46, _shaded(colour, 0.72))
            _glass(image, x, y + 18, x + 22, y + 44, rng)
            if rng.random() < 0.4:
                awning = rng.choice(((200, 92, 70), (240, 236, 226), (84, 128, 150)))
                _box(image, x - 5, y + 12, x + 27, y + 20, awning)
    _doors(image, colour, rng)


def _stone(image: np.ndarray, colour: RGB, rng) -> None:
    for y in range(0, image.shape[0], 10):
        image[y] = (image[y] * 0.78).astype(np.uint8)
        for x in range((y // 10 % 2) * 11, image.shape[1], 22):
            image[y : y + 10, x] = (image[y : y + 10, x] * 0.8).astype(np.uint8)
    for floor in range(FLOORS - 1):
        y = floor * FLOOR
        for bay in range(BAYS):
            x = bay * BAY + 18
            cv2.ellipse(image, (x + 12, y + 18), (15, 12), 0, 180, 360, (216, 206, 188), -1)
            _box(image, x - 3, y + 18, x + 27, y + 52, (216, 206, 188))
            cv2.ellipse(image, (x + 12, y + 18), (12, 9), 0, 180, 360, (60, 72, 84), -1)
            _glass(image, x, y + 18, x + 24, y + 50, rng)
    _shops(image, colour, rng)


def _shops(image: np.ndarray, colour: RGB, rng) -> None:
    """Ground floor of windows, doors, awnings and name boards."""
    y = (FLOORS - 1) * FLOOR
    _box(image, 0, y, image.shape[1], y + 63, _shaded(colour, rng.uniform(0.5, 0.85)))
    for bay in range(0, BAYS, 2):
        x = bay * BAY
        board = rng.choice(
            (
                (150, 40, 40),
                (36, 84, 60),
                (40, 60, 110),
                (220, 190, 70),
                (60, 56, 54),
                (226, 224, 214),
            )
        )
        if rng.random() < 0.75:
            _glass(image, x + 6, y + 20, x + 76, y + 56, rng)
            _box(image, x + 82, y + 18, x + 110, y + 63, _shaded(board, 0.6))
            _glass(image, x + 86, y + 22, x + 106, y + 50, rng)
            _box(image, x + 4, y + 4, x + 114, y + 15, board)
            if rng.random() < 0.5:
                stripe = (236, 232, 224)
                for i in range(11):
                    tone = board if i % 2 else stripe
                    _box(image, x + 4 + i * 10, y + 15, x + 13 + i * 10, y + 25, tone)
        else:
            _box(image, x + 40, y + 14, x + 68, y + 63, _shaded(colour, 0.45))
            _box(image, x + 44, y + 18, x + 64, y + 63, rng.choice(((84, 58, 40), (50, 66, 60))))


def _doors(image: np.ndarray, colour: RGB, rng) -> None:
    """Ground floor of a home: a door every few bays, windows else."""
    y = (FLOORS - 1) * FLOOR
    door = rng.randrange(3)
    for bay in range(BAYS):
        x = bay * BAY
        _box(image, x, y + 58, x + BAY, y + 63, _shaded(colour, 0.6))
        if bay % 3 == door:
            _box(image, x + 15, y + 14, x + 45, y + 63, _shaded(colour, 0.55))
            _box(image, x + 18, y + 18, x + 42, y + 63, rng.choice(((96, 62, 40), (60, 70, 92))))
        else:
            _box(image, x + 11, y + 15, x + 49, y + 47, (236, 234, 226))
            _glass(image, x + 14, y + 18, x + 46, y + 44, rng)


_FACADE_PAINTERS = {
    "plaster": _plaster,
    "brick": _brick,
    "glass": _glass_tower,
    "panel": _panel,
    "siding": _siding,
    "corrugated": _corrugated,
    "adobe": _adobe,
    "stone": _stone,
}


@lru_cache(maxsize=24)
def wall(style: str, variant: int) -> list[np.ndarray]:
    """A free-standing wall, 64 texels high, 512 long (12 m of a wall 1.5 to 3 m high)."""
    rng = draws("wall", style, variant)
    image = np.zeros((64, 512, 3), np.uint8)
    if style == "brick":
        _brickwork(image, rng.choice(((146, 80, 62), (166, 112, 88), (122, 92, 80))), rng)
    elif style == "stone":
        image[:] = (92, 88, 82)
        tone = rng.choice(((164, 154, 138), (148, 146, 142), (178, 160, 132)))
        for row, y in enumerate(range(4, 64, 12)):
            x = -rng.randrange(20)
            while x < 512:
                length = rng.randrange(14, 32)
                _box(image, x, y, x + length - 3, y + 9, _shaded(tone, rng.uniform(0.75, 1.2)))
                x += length
            if row > 5:
                break
    else:  # concrete panels, or rendered in a color
        tone = rng.choice(((172, 172, 168), (150, 152, 150), (190, 182, 168)))
        if style == "render":
            tone = rng.choice(((226, 206, 170), (236, 232, 220), (206, 176, 140)))
        image[:] = tone
        for x in range(0, 512, 128):
            _box(image, x, 0, x + 3, 63, _shaded(tone, 0.7))
    image = _dirty(image, 0.08, f"wall{variant}")
    image[44:] = (image[44:] * np.linspace(1, 0.7, 20)[:, None, None]).astype(np.uint8)
    if style in ("concrete", "render") and rng.random() < 0.6:
        for _ in range(5):  # graffiti
            x, paint = rng.randrange(30, 440), tuple(rng.randrange(40, 230) for _ in range(3))
            points = [(x + i * 8, 38 + rng.randrange(-14, 14)) for i in range(7)]
            cv2.polylines(image, [np.array(points)], False, paint, 4)
    _box(image, 0, 0, 511, 3, _shaded(tuple(int(c) for c in image[10, 40]), 1.25))
    return halvings(image, 5)


@lru_cache(maxsize=24)
def fence(style: str, variant: int) -> list[np.ndarray]:
    """A fence with openings, uint8 [64, 512, 4]: color (not premultiplied) and opacity."""
    rng = draws("fence", style, variant)
    image = np.zeros((64, 512, 4), np.uint8)
    if style == "picket":
        paint = rng.choice(((236, 236, 230), (120, 88, 60), (160, 130, 96), (90, 110, 90)))
        image[:] = (*_shaded(paint, 0.5), 110)
        for x in range(0, 512, 11):
            tone = (*_shaded(paint, rng.uniform(0.88, 1.08)), 255)
            cv2.rectangle(image, (x, rng.randrange(0, 4)), (x + 7, 63), tone, -1)
        for y in (14, 48):
            cv2.rectangle(image, (0, y), (511, y + 5), (*_shaded(paint, 0.85), 255), -1)
    elif style == "board":
        paint = rng.choice(((132, 98, 66), (110, 84, 64), (150, 124, 92)))
        for x in range(0, 512, 14):
            tone = (*_shaded(paint, rng.uniform(0.8, 1.15)), 255)
            cv2.rectangle(image, (x, 0), (x + 12, 63), tone, -1)
            cv2.rectangle(image, (x + 13, 0), (x + 13, 63), (*_shaded(paint, 0.4), 255), -1)
    elif style == "rails":  # iron rails
        paint = rng.choice(((40, 46, 44), (60, 70, 66), (96, 100, 104), (34, 60, 46)))
        image[:] = (*paint, 70)
        for x in range(0, 512, 9):
            cv2.rectangle(image, (x, 0), (x + 2, 63), (*paint, 255), -1)
        for y in (3, 56):
            cv2.rectangle(image, (0, y), (511, y + 4), (*paint, 255), -1)
    else:  # wire mesh on posts
        paint = rng.choice(((150, 156, 156), (88, 112, 92)))
        image[:] = (*paint, 85)
        for x in range(-64, 512, 8):
            cv2.line(image, (x, 0), (x + 64, 63), (*paint, 180), 1)
            cv2.line(image, (x + 64, 0), (x, 63), (*paint, 180), 1)
        for x in range(0, 512, 64):
            cv2.rectangle(image, (x, 0), (x + 4, 63), (*_shaded(paint, 0.8), 255), -1)
        cv2.rectangle(image, (0, 0), (511, 3), (*_shaded(paint, 0.9), 255), -1)
    return halvings(image, 5)


SIGNS = (
    "stop",
    "yield",
    "limit",
    "no_entry",
    "mandatory",
    "warning",
    "priority",
    "parking",
    "guide",
)


@lru_cache(maxsize=16)
def sign(kind: str) -> np.ndarray:
    """A traffic sign's face, uint8 [64, 64, 4] (guide: [64, 160, 4]), premultiplied."""
    size = (64, 160, 4) if kind == "guide" else (64, 64, 4)
    image = np.zeros(size, np.uint8)
    red, white, blue, black = (
        (196, 30, 36, 255),
        (240, 240, 240, 255),
        (28, 78, 160, 255),
        (30, 30, 30, 255),
    )

    def disc(radius: int, colour: tuple) -> None:
        cv2.circle(image, (32, 32), radius, colour, -1)

    def regular(sides: int, radius: float, turn: float, colour: tuple) -> None:
        angles = np.arange(sides) * 2 * math.pi / sides + turn
        points = np.stack([32 + radius * np.cos(angles), 32 + radius * np.sin(angles)], axis=1)
        cv2.fillPoly(image, [points.astype(np.int32)], colour)

    def triangle(down: bool, inset: int, colour: tuple) -> None:
        flip = -1 if down else 1
        points = [(32, 32 - flip * (28 - 2 * inset)), (62 - 2 * inset, 32 + flip * (26 - inset))]
        points.append((2 + 2 * inset, points[1][1]))
        cv2.fillPoly(image, [np.array(points, np.int32)], colour)

    if kind == "stop":
        regular(8, 31, math.pi / 8, white)
        regular(8, 28, math.pi / 8, red)
        cv2.rectangle(image, (12, 26), (52, 38), white, -1)
    elif kind == "yield":
        triangle(True, 0, red)
        triangle(True, 5, white)
    elif kind == "warning":
        triangle(False, 0, red)
        triangle(False, 5, white)
        cv2.rectangle(image, (29, 28), (35, 48), black, -1)
    elif kind == "limit":
        disc(30, red)
        disc(22, white)
        cv2.putText(image, "50", (15, 41), cv2.FONT_HERSHEY_SIMPLEX, 0.85, black, 4)
    elif kind == "no_entry":
        disc(30, red)
        cv2.rectangle(image, (12, 26), (52, 38), white, -1)
    elif kind == "mandatory":
        disc(30, blue)
        cv2.arrowedLine(image, (32, 52), (32, 12), white, 6, tipLength=0.4)
    elif kind == "priority":
        regular(4, 31, 0, white)
        regular(4, 23, 0, (236, 186, 30, 255))
    elif kind == "parking":
        image[2:62, 2:62] = blue
        cv2.putText(image, "P", (16, 50), cv2.FONT_HERSHEY_SIMPLEX, 1.6, white, 7)
    else:
        image[:] = white
        image[3:61, 3:157] = blue
        for y in (16, 34, 48):
            cv2.rectangle(image, (16, y), (120, y + 5), white, -1)
        cv2.arrowedLine(image, (140, 52), (140, 12), white, 5, tipLength=0.4)
    return image
