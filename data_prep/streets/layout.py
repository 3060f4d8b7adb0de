"""What stands where: one street, drawn at random from a town's habits. Nothing is painted here."""

import math
import random
from dataclasses import dataclass, field

from .keys import draws
from .sprites import PEOPLE, TREES, TWO_WHEELERS
from .textures import SIGNS
from .towns import Town
from .vehicles import BODIES, PAINTS

REACH = 135.0
"""How far ahead things stand, meters."""


@dataclass
class Lot:
    """A stretch of one roadside from z0 to z1; ``front`` is the distance from the center line."""

    side: int
    z0: float
    z1: float
    kind: str
    front: float
    height: float = 0.0
    depth: float = 12.0
    floors: int = 0
    style: tuple = ()
    bay: int = 0
    roof: tuple | None = None
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    end_hidden: bool = False


@dataclass
class Thing:
    """An object at (s, z); ``what`` are the facts its painter needs."""

    kind: str
    s: float
    z: float
    what: dict = field(default_factory=dict)


@dataclass
class Street:
    """Cross-section, crossing, lots and things of one scene (meters)."""

    lanes: int
    lane_width: float
    half: float
    parking: dict[int, bool]
    sidewalk: dict[int, float]
    verge: dict[int, float]
    crossing: tuple[float, float] | None
    zebra: bool
    slope: float
    bend: float
    one_way: bool
    wear: float
    lots: list[Lot]
    things: list[Thing]

    def front(self, side: int) -> float:
        """Where the lots begin."""
        return self.half + self.sidewalk[side] + self.verge[side]


def lay_out(town: Town, *key: object) -> Street:
    """Draw a street of a town; the same key gives the same street."""
    rng = draws("street", *key)
    street = _cross_section(town, rng)
    for side in (-1, 1):
        street.lots += _lots(town, street, side, draws("lots", side, *key))
    _hide_ends(street.lots)
    rng = draws("things", *key)
    _trees(town, street, rng)
    _furniture(town, street, rng)
    _vehicles(town, street, rng)
    _people(town, street, rng)
    return street


def _cross_section(town: Town, rng: random.Random) -> Street:
    lanes = rng.choice(town.lanes)
    parking = {side: rng.random() < town.parking for side in (-1, 1)}
    width = town.lane_width * rng.uniform(0.92, 1.08)
    crossing = None
    if rng.random() < town.crossing:
        begin = rng.uniform(13, 55)
        crossing = (begin, begin + rng.uniform(7, 13))
    sidewalk = rng.uniform(*town.sidewalk)
    if town.sidewalk[1] == 0 and rng.random() < 0.25:
        sidewalk = rng.uniform(1.2, 1.8)
    verge = rng.uniform(*town.verge)
    return Street(
        lanes=lanes,
        lane_width=width,
        half=lanes * width + (2.1 if any(parking.values()) else 0.25),
        parking=parking,
        sidewalk={-1: sidewalk, 1: sidewalk * rng.uniform(0.8, 1.2)},
        verge={-1: verge * rng.uniform(0.7, 1.3), 1: verge},
        crossing=crossing,
        zebra=crossing is not None and rng.random() < 0.7,
        slope=rng.gauss(0, 0.035),
        bend=rng.gauss(0, 1) * town.bends,
        one_way=lanes == 1 and town.lane_width < 3.2 and rng.random() < 0.4,
        wear=rng.uniform(0.5, 1.3),
        lots=[],
        things=[],
    )


def _lots(town: Town, street: Street, side: int, rng: random.Random) -> list[Lot]:
    lots: list[Lot] = []
    kinds, weights = list(town.beside), list(town.beside.values())
    z = rng.uniform(-14, -2)
    while z < REACH:
        kind = rng.choices(kinds, weights)[0]
        length = {
            "building": rng.uniform(10, 24),
            "house": rng.uniform(12, 19),
            "open": rng.uniform(8, 22) * (2 if town.sidewalk[1] == 0 else 1),
        }.get(kind, rng.uniform(8, 26))
        end = z + length
        if street.crossing:
            begin, finish = street.crossing[0] - 3.0, street.crossing[1] + 3.0
            if z < finish and end > begin:
                if begin - z > 6:
                    end = begin
                else:
                    z = max(finish, z)
                    if end - z < 6:
                        end = z + length
        front = street.front(side)
        if kind in ("building", "house"):
            lot = _building(town, side, z, end, front, kind, rng)
            lots.append(lot)
            if kind == "house" and rng.random() < 0.75:
                guard = rng.choices(("fence", "hedge", "wall"), (5, 2, 1.2))[0]
                lots.append(_barrier(town, side, z, end - 3.0, front + 0.2, guard, rng))
        elif kind != "open":
            lots.append(_barrier(town, side, z, end, front + rng.uniform(0, 0.5), kind, rng))
            if kind == "wall" and rng.random() < 0.4 and town.floors[1] > 2:
                back = _building(town, side, z + 1, end - 1, front + rng.uniform(6, 12), kind, rng)
                lots.append(back)
        z = end
    return lots


def _hide_ends(lots: list[Lot]) -> None:
    """Mark the buildings whose end towards the camera a taller neighbour stands before."""
    buildings = [lot for lot in lots if lot.kind == "building"]
    for lot in buildings:
        top = lot.height + (lot.depth * 0.4 if lot.roof else 0.3)
        lot.end_hidden = any(
            other.side == lot.side
            and abs(other.z1 - lot.z0) < 0.1
            and other.height >= top
            and other.front <= lot.front + 0.05
            for other in buildings
        )


def _building(town, side, z0, z1, front, kind, rng: random.Random) -> Lot:
    floors = rng.randint(*town.floors)
    pitched = rng.random() < town.pitched
    margin = rng.uniform(1.0, 3.0) if kind == "house" else 0.0
    light = rng.uniform(0.8, 1.12)
    return Lot(
        side=side,
        z0=z0 + margin,
        z1=z1 - margin,
        kind="building",
        front=front + rng.uniform(*town.setback),
        height=floors * 3.2 + (0.0 if pitched else rng.uniform(0.2, 0.9)),
        depth=rng.uniform(8, 13),
        floors=floors,
        style=(*rng.choice(town.palette), rng.randrange(2)),
        bay=rng.randrange(8),
        roof=rng.choice(town.roofs) if pitched else None,
        tint=tuple(light * rng.uniform(0.94, 1.06) for _ in range(3)),
    )


def _barrier(town, side, z0, z1, front, kind, rng: random.Random) -> Lot:
    light = rng.uniform(0.8, 1.1)
    styles = {"wall": town.walls, "fence": town.fences}.get(kind, ("hedge",))
    tall = {"wall": (1.5, 3.0), "fence": (1.1, 2.1), "hedge": (1.0, 2.0)}[kind]
    return Lot(
        side=side,
        z0=z0,
        z1=z1,
        kind=kind,
        front=front,
        height=rng.uniform(*tall),
        style=(rng.choice(styles), rng.randrange(4)),
        bay=rng.randrange(200),
        tint=tuple(light * rng.uniform(0.95, 1.05) for _ in range(3)),
    )


def _trees(town: Town, street: Street, rng: random.Random) -> None:
    kinds, weights = list(town.trees), list(town.trees.values())
    avenue = rng.choices(kinds, weights)[0]
    if avenue == "bush":
        avenue = "broad"
    leaves = rng.choice(town.leaves)

    def plant(kind: str, s: float, z: float, size: float) -> None:
        colour = rng.choice(town.leaves) if rng.random() < 0.5 else leaves
        height = {
            "broad": rng.uniform(5.5, 10),
            "conifer": rng.uniform(7, 13),
            "poplar": rng.uniform(8, 14),
            "palm": rng.uniform(5, 8.5),
            "bush": rng.uniform(0.8, 2.0),
        }[kind]
        light = rng.uniform(0.82, 1.16)
        what = {
            "plant": kind,
            "variant": rng.randrange(TREES[kind]),
            "height": height * size,
            "leaves": tuple(c * light * rng.uniform(0.94, 1.06) for c in colour),
            "flip": rng.random() < 0.5,
        }
        street.things.append(Thing("plant", s, z, what))

    for side in (-1, 1):
        if town.planting and rng.random() < 0.8:
            verge = street.verge[side]
            at = street.half + street.sidewalk[side] + verge / 2
            if verge < 1:
                at = street.half + 0.9
            z = rng.uniform(3, 16)
            step = 1 / town.planting
            while z < REACH:
                if not _in_crossing(street, z, 3) and (street.sidewalk[side] > 1.9 or verge > 0.8):
                    kind = avenue if rng.random() < 0.85 else "bush"
                    plant(kind, side * (at + rng.uniform(-0.3, 0.3)), z, 0.85)
                z += step * rng.uniform(0.7, 1.4)
        # Behind everything that is not a building.
        z = rng.uniform(4, 10)
        while z < REACH:
            if not any(
                lot.kind == "building" and lot.side == side and lot.z0 - 2 < z < lot.z1 + 2
                for lot in street.lots
            ):
                away = street.front(side) + 2.5 + rng.expovariate(1 / 9)
                plant(rng.choices(kinds, weights)[0], side * away, z, rng.uniform(0.7, 1.25))
            # The skyline closes what thins out with distance.
            z += rng.expovariate(town.forest * 0.8) * (1 + z / 70)


def _in_crossing(street: Street, z: float, margin: float) -> bool:
    if not street.crossing:
        return False
    return street.crossing[0] - margin < z < street.crossing[1] + margin


def _furniture(town: Town, street: Street, rng: random.Random) -> None:
    things = street.things
    curb = {side: street.half + 0.55 for side in (-1, 1)}
    country = town.sidewalk[1] == 0
    # Lamps, or in the country telegraph poles.
    style = rng.choice(("arm", "arm", "top"))
    z = rng.uniform(5, 20)
    side = rng.choice((-1, 1))
    while z < REACH:
        if not _in_crossing(street, z, 1):
            if country:
                things.append(Thing("telegraph", side * (curb[side] + 2.2), z, {"side": side}))
            else:
                what = {"side": side, "style": style, "height": 4.2 if style == "top" else 7.5}
                things.append(Thing("lamp", side * curb[side], z, what))
                side = -side
        z += rng.uniform(20, 27) / (1 if country else 1.5)
    if street.crossing:
        begin, finish = street.crossing
        if rng.random() < (0.3 if country else 0.85):
            state = rng.choice(("red", "green", "red", "amber"))
            stop = begin - (4.6 if street.zebra else 1.6)
            overhead = street.half > 6 and rng.random() < 0.7
            for side, z in ((1, stop), (-1, stop + 0.4), (1, finish + 1.5), (-1, finish + 1.8)):
                what = {"side": side, "state": state, "overhead": overhead and z > begin}
                things.append(Thing("signal", side * curb[side], z, what))
    # Signs, more of them near the camera, where they can be seen.
    for _ in range(rng.randint(2, 6)):
        side, z = rng.choice((1, 1, -1)), rng.uniform(7, 60)
        kind = rng.choice(SIGNS)
        if not _in_crossing(street, z, 0):
            what = {"sign": kind, "height": rng.uniform(2.2, 2.9), "size": rng.uniform(0.65, 0.95)}
            things.append(Thing("sign", side * curb[side], z, what))
    if street.lanes > 1 and rng.random() < 0.45:
        z = rng.uniform(22, 75)
        if not _in_crossing(street, z, 2):
            things.append(Thing("gantry", curb[1], z, {"boards": rng.randint(1, 2)}))
    if not country:
        for _ in range(rng.randint(0, 5)):
            side = rng.choice((-1, 1))
            what = {
                "colour": rng.choice(((60, 80, 66), (84, 88, 92), (150, 110, 50), (50, 66, 110)))
            }
            things.append(Thing("bin", side * (curb[side] + 0.3), rng.uniform(5, 50), what))
        if rng.random() < 0.3:
            side, z = rng.choice((-1, 1)), rng.uniform(6, 25)
            for i in range(rng.randint(4, 9)):
                if not _in_crossing(street, z + i * 1.6, 0):
                    things.append(Thing("bollard", side * (street.half + 0.35), z + i * 1.6))
    elif rng.random() < 0.35:
        side, z = rng.choice((-1, 1)), rng.uniform(4, 30)
        end = z + rng.uniform(15, 40)
        things.append(Thing("guardrail", side * (street.half + 0.5), end, {"from": z}))


def _vehicle(rng: random.Random, heading: float, parked: bool) -> dict:
    names = list(BODIES)
    weights = [BODIES[name].share for name in names]
    body = rng.choices(names, weights)[0]
    if parked and BODIES[body].length > 6:
        body = "hatchback"
    paint = rng.choice(BODIES[body].paints or PAINTS)
    light = rng.uniform(0.85, 1.12)
    return {
        "body": body,
        "paint": tuple(channel * light for channel in paint),
        "heading": heading,
        "parked": parked,
        "braking": rng.random() < 0.3,
    }


def _vehicles(town: Town, street: Street, rng: random.Random) -> None:
    things = street.things
    for side in (-1, 1):
        if not street.parking[side]:
            continue
        z = rng.uniform(3, 9)
        heading = 0.0 if side == 1 or street.one_way else math.pi
        while z < 90:
            if rng.random() < 0.6 and not _in_crossing(street, z, 8):
                what = _vehicle(rng, heading + rng.gauss(0, 0.02), True)
                things.append(Thing("vehicle", side * (street.half - 1.1), z, what))
            z += rng.uniform(5.6, 7.0)
    occupied: dict[int, list[float]] = {}
    for _ in range(_count(town.traffic, rng)):
        lane = rng.randrange(street.lanes)
        side = 1 if street.one_way else rng.choice((1, -1))
        own = side == 1 and lane == 0
        z = rng.uniform(9 if own else 5, 90)
        what = _vehicle(rng, (0.0 if side == 1 else math.pi) + rng.gauss(0, 0.015), False)
        spots = occupied.setdefault(side * (lane + 1), [])
        room = 4.5 + BODIES[what["body"]].length / 2
        if own and z < 6 + room:
            z += 8
        if any(abs(z - other) < room + 3 for other in spots):
            continue
        spots.append(z)
        s = side * (lane + 0.5) * street.lane_width
        if street.one_way:
            s = 0.0
        things.append(Thing("vehicle", s + rng.gauss(0, 0.15), z, what))
    if street.crossing and rng.random() < 0.35:
        begin, finish = street.crossing
        what = _vehicle(rng, rng.choice((-1, 1)) * math.pi / 2, False)
        at = begin + (finish - begin) * (0.3 if what["heading"] < 0 else 0.7)
        things.append(Thing("vehicle", rng.uniform(-1, 1) * (street.half + 2), at, what))
    for _ in range(_count(1.6 * town.two_wheelers, rng)):
        motor, ridden = rng.random() < 0.48, rng.random() < 0.68
        what = {"motor": motor, "ridden": ridden, "variant": rng.randrange(TWO_WHEELERS)}
        what |= {"colours": rng.randrange(1 << 30), "flip": rng.random() < 0.5}
        z = rng.uniform(5.5, 26)
        if ridden:
            side = rng.choice((1, 1, -1))
            what["side_on"] = rng.random() < 0.25
            kerb = street.half - (2.9 if street.parking[side] else 0.9)
            s = (
                side * max(kerb, 0.6)
                if not what["side_on"]
                else rng.uniform(-0.8, 0.8) * street.half
            )
            z += 2.5
        else:
            side = rng.choice((-1, 1))
            what["side_on"] = rng.random() < 0.7
            s = side * (street.half + max(street.sidewalk[side] * rng.uniform(0.3, 0.8), 0.6))
        things.append(Thing("two_wheeler", s, z, what))


def _people(town: Town, street: Street, rng: random.Random) -> None:
    def add(s: float, z: float) -> None:
        what = {
            "variant": rng.randrange(PEOPLE),
            "colours": rng.randrange(1 << 30),
            "height": 1.1 if rng.random() < 0.08 else rng.uniform(1.58, 1.92),
            "flip": rng.random() < 0.5,
        }
        street.things.append(Thing("person", s, z, what))

    for _ in range(_count(1.3 * town.people, rng)):
        side = rng.choice((-1, 1))
        z = 4.5 + 55 * rng.random() ** 1.5
        if _in_crossing(street, z, 0):
            continue
        room = max(street.sidewalk[side], 1.0)
        s = side * (street.half + 0.4 + (room - 0.6) * rng.random())
        add(s, z)
        if rng.random() < 0.35:
            add(s + rng.uniform(-0.7, 0.7), z + rng.uniform(0.2, 0.8))
    if street.zebra and street.crossing:
        for _ in range(rng.randint(0, 4)):
            add(rng.uniform(-1, 1) * street.half, street.crossing[0] - rng.uniform(1.0, 3.0))
    elif rng.random() < 0.25:
        add(rng.uniform(-0.9, 0.9) * street.half, rng.uniform(10, 35))


def _count(mean: float, rng: random.Random) -> int:
    """A Poisson draw (Knuth)."""
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
