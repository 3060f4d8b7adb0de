"""Label ids of the scenes: IDDA's raw ids, four more, and the way to Cityscapes' ids."""

import numpy as np

UNLABELED, BUILDING, FENCE, OTHER, PERSON, POLE, ROAD_LINE, ROAD, SIDEWALK, VEGETATION = range(10)
CAR, WALL, SIGN, LIGHT, GUARDRAIL, DYNAMIC, BICYCLE, MOTORCYCLE, RIDER, TERRAIN, SKY = range(10, 21)

# Drawn under ids of their own, because Cityscapes distinguishes them from cars while IDDA does not.
TRUCK, BUS, TRAM, OWN_CAR = 101, 102, 103, 104

_TO_IDDA = {TRUCK: CAR, BUS: CAR, TRAM: CAR, OWN_CAR: UNLABELED}

_TO_CITYSCAPES = {
    OWN_CAR: 1,
    OTHER: 4,
    DYNAMIC: 5,
    ROAD: 7,
    ROAD_LINE: 7,
    SIDEWALK: 8,
    BUILDING: 11,
    WALL: 12,
    FENCE: 13,
    GUARDRAIL: 14,
    POLE: 17,
    LIGHT: 19,
    SIGN: 20,
    VEGETATION: 21,
    TERRAIN: 22,
    SKY: 23,
    PERSON: 24,
    RIDER: 25,
    CAR: 26,
    TRUCK: 27,
    BUS: 28,
    TRAM: 31,
    MOTORCYCLE: 32,
    BICYCLE: 33,
}


def _table(mapping: dict[int, int], keep: range) -> np.ndarray:
    table = np.zeros(256, np.uint8)
    table[keep] = keep
    for source, target in mapping.items():
        table[source] = target
    return table


TO_IDDA = _table(_TO_IDDA, range(SKY + 1))
"""Lookup table, internal id -> IDDA raw id."""

TO_CITYSCAPES = _table(_TO_CITYSCAPES, range(0))
"""Lookup table, internal id -> Cityscapes labelId."""
