"""Frost on a window pane, drawn: stands in for the photographs that CIFAR-C's frost was made with.

The original blends an image with a piece of one of five photographs, shrunk to a fifth. Those are
not ours to ship, so five panes of about that size are drawn instead: needles of ice that branch at
60 degrees as ice does, thick in some places and thin in others, over blurred, bluish glass. They
are as unequally bright as the photographs, of which the darkest has a mean of 131 and the brightest
of 207: that decides how far frost moves an image. The three means in between are chosen for the
mean absolute differences of the official files (``docs/data_sets.md``).
"""

from functools import lru_cache

import cv2
import numpy as np

from fedseg.core.seeds import generator_for

MEANS = (131, 145, 160, 180, 207)  # gray levels, one a pane
SIZE = 224  # height and width of a pane, pixels
_FINE = 4  # needles are drawn this much larger
_GLASS, _ICE = (58, 76, 104), (226, 238, 250)  # RGB
_BRANCHES, _DEPTH = 9, 3


@lru_cache(maxsize=2)
def panes(seed: int = 0) -> np.ndarray:
    """The five panes, uint8 [5, SIZE, SIZE, 3] RGB; they depend on the seed alone."""
    drawn = (_pane(generator_for(seed, "frost pane", i)) for i in range(len(MEANS)))
    made = np.stack([_lightened(pane, mean) for pane, mean in zip(drawn, MEANS, strict=True)])
    made.flags.writeable = False
    return made


def _pane(rng: np.random.Generator) -> np.ndarray:
    thickness = _clouds(rng, (3, 6, 12))[..., None]
    grain = _clouds(rng, (24, 48, 96))[..., None]
    needles = _needles(rng)[..., None]
    # where the ice is thick, needles grow together into a rough white sheet
    ice = np.clip(needles * (0.35 + 0.9 * thickness) + 0.75 * thickness * grain**2, 0, 1)
    glass = np.float32(_GLASS) * (0.7 + 0.6 * _clouds(rng, (2, 5))[..., None])
    return np.rint(np.clip(glass + (np.float32(_ICE) - glass) * ice, 0, 255)).astype(np.uint8)


def _lightened(pane: np.ndarray, mean: float) -> np.ndarray:
    """A pane with its levels raised to the power that makes them average ``mean``."""
    levels = np.linspace(0, 1, 256)
    shares = np.bincount(pane.ravel(), minlength=256) / pane.size
    bent = levels ** np.geomspace(0.1, 10, 2000)[:, None]
    closest = bent[np.abs(255 * bent @ shares - mean).argmin()]
    return np.rint(255 * closest).astype(np.uint8)[pane]


def _clouds(rng: np.random.Generator, cells: tuple[int, ...]) -> np.ndarray:
    """Smooth noise in [0, 1], float32 [SIZE, SIZE]: coarse cells weigh the most."""
    total = np.zeros((SIZE, SIZE), np.float32)
    for octave, count in enumerate(cells):
        coarse = rng.random((count + 1, count + 1), np.float32)
        total += cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC) / 2**octave
    low, high = np.quantile(total, (0.02, 0.98))
    return np.clip((total - low) / (high - low), 0, 1)


def _needles(rng: np.random.Generator) -> np.ndarray:
    """Branching needles in [0, 1], float32 [SIZE, SIZE]."""
    canvas = np.zeros((SIZE * _FINE, SIZE * _FINE), np.uint8)
    for _ in range(60):
        start = rng.uniform(0, SIZE * _FINE, 2)
        _grow(canvas, rng, start, rng.uniform(0, 2 * np.pi), rng.uniform(60, 260), 0)
    return cv2.resize(canvas, (SIZE, SIZE), interpolation=cv2.INTER_AREA).astype(np.float32) / 255


def _grow(
    canvas: np.ndarray,
    rng: np.random.Generator,
    start: np.ndarray,
    direction: float,
    length: float,
    depth: int,
) -> None:
    """Draw a needle and, along it, ever shorter ones on both sides."""
    along = np.array([np.cos(direction), np.sin(direction)])
    end = start + length * along
    cv2.line(
        canvas,
        [int(v) for v in np.rint(start)],
        [int(v) for v in np.rint(end)],
        int(rng.integers(150, 256)),
        thickness=max(1, 5 - 2 * depth),
        lineType=cv2.LINE_AA,
    )
    if depth + 1 == _DEPTH or length < 12:
        return
    for share in np.linspace(0.12, 0.92, _BRANCHES):
        for side in (-1, 1):
            angle = direction + side * np.pi / 3 + rng.normal(0, 0.05)
            size = length * 0.45 * (1 - share) * rng.uniform(0.6, 1.2) + 4
            _grow(canvas, rng, start + share * length * along, angle, size, depth + 1)
