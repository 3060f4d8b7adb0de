"""What sets the seven towns apart: widths, materials, what stands beside the road, who is about."""

from dataclasses import dataclass, replace

from .keys import draws
from .textures import FACADES

RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Town:
    """Ranges are (low, high); ``beside`` and the other mappings hold relative frequencies.

    Lengths are in meters. ``planting`` is trees a meter of verge, ``forest`` trees a meter behind
    lots without a building.
    """

    lanes: tuple[int, ...]
    lane_width: float
    parking: float  # chance of a parking lane on either side
    sidewalk: tuple[float, float]
    verge: tuple[float, float]
    setback: tuple[float, float]
    beside: dict[str, float]
    facades: dict[str, float]
    floors: tuple[int, int]
    pitched: float  # chance of a pitched roof
    roofs: tuple[RGB, ...]
    walls: tuple[str, ...]
    fences: tuple[str, ...]
    asphalt: RGB
    paving: RGB
    paving_joint: float
    terrain: RGB
    leaves: tuple[RGB, ...]
    trees: dict[str, float]
    planting: float
    forest: float
    hills: float  # height of the skyline's hills over their distance
    skyline: str
    yellow_lines: bool
    crossing: float  # chance of a side street
    people: float  # mean number on the sidewalks
    traffic: float  # mean number of moving vehicles
    two_wheelers: float
    bends: float
    palette: tuple[tuple[str, RGB], ...] = ()


TOWNS: dict[int, Town] = {
    # Office blocks along wide streets.
    1: Town(
        lanes=(2, 2, 3),
        lane_width=3.4,
        parking=0.35,
        sidewalk=(3.5, 5.5),
        verge=(0.0, 0.3),
        setback=(0.0, 1.0),
        beside={"building": 10, "open": 0.7, "wall": 0.5, "fence": 0.4},
        facades={"glass": 5, "panel": 1, "stone": 2, "brick": 1},
        floors=(5, 10),
        pitched=0.0,
        roofs=((92, 94, 98),),
        walls=("concrete", "stone"),
        fences=("rails",),
        asphalt=(84, 86, 92),
        paving=(168, 168, 166),
        paving_joint=1.2,
        terrain=(88, 112, 62),
        leaves=((82, 112, 52), (92, 116, 60)),
        trees={"broad": 4, "conifer": 0.5},
        planting=0.045,
        forest=0.1,
        hills=0.0,
        skyline="towers",
        yellow_lines=True,
        crossing=0.8,
        people=7,
        traffic=6,
        two_wheelers=1.5,
        bends=0.0004,
    ),
    # An old town: narrow, coloured plaster, pitched roofs.
    2: Town(
        lanes=(1,),
        lane_width=3.1,
        parking=0.5,
        sidewalk=(1.6, 2.8),
        verge=(0.0, 0.0),
        setback=(0.0, 0.3),
        beside={"building": 10, "wall": 1.3, "open": 0.4, "fence": 0.3},
        facades={"plaster": 7, "stone": 2},
        floors=(3, 5),
        pitched=0.9,
        roofs=((156, 84, 60), (136, 70, 54), (110, 76, 66)),
        walls=("stone", "render"),
        fences=("rails",),
        asphalt=(104, 102, 100),
        paving=(150, 134, 122),
        paving_joint=0.5,
        terrain=(104, 106, 70),
        leaves=((86, 106, 48), (104, 110, 58)),
        trees={"broad": 3, "poplar": 1, "bush": 1},
        planting=0.02,
        forest=0.15,
        hills=0.03,
        skyline="roofs",
        yellow_lines=False,
        crossing=0.55,
        people=8,
        traffic=3.5,
        two_wheelers=2.6,
        bends=0.0022,
    ),
    # A garden suburb: houses behind fences and hedges.
    3: Town(
        lanes=(1,),
        lane_width=3.5,
        parking=0.6,
        sidewalk=(1.5, 2.2),
        verge=(1.0, 2.6),
        setback=(3.0, 7.0),
        beside={"house": 8, "hedge": 1.5, "fence": 2.2, "open": 1, "wall": 0.5},
        facades={"siding": 5, "brick": 3, "plaster": 1},
        floors=(1, 2),
        pitched=1.0,
        roofs=((96, 84, 80), (120, 72, 60), (76, 80, 88)),
        walls=("brick",),
        fences=("picket", "board", "picket"),
        asphalt=(94, 94, 96),
        paving=(188, 184, 174),
        paving_joint=1.5,
        terrain=(92, 126, 56),
        leaves=((84, 122, 48), (108, 124, 52), (70, 104, 56)),
        trees={"broad": 5, "conifer": 1.2, "bush": 2},
        planting=0.07,
        forest=0.35,
        hills=0.02,
        skyline="trees",
        yellow_lines=True,
        crossing=0.5,
        people=3.5,
        traffic=3,
        two_wheelers=1.6,
        bends=0.0016,
    ),
    # Workshops and yards.
    4: Town(
        lanes=(1, 2),
        lane_width=3.8,
        parking=0.4,
        sidewalk=(1.4, 2.6),
        verge=(0.4, 2.0),
        setback=(0.5, 5.0),
        beside={"building": 5, "wall": 3.5, "fence": 3.5, "open": 1},
        facades={"corrugated": 5, "brick": 3, "panel": 1},
        floors=(2, 4),
        pitched=0.3,
        roofs=((120, 122, 124), (104, 90, 84)),
        walls=("concrete", "brick", "concrete"),
        fences=("mesh", "mesh", "rails"),
        asphalt=(112, 110, 106),
        paving=(142, 142, 142),
        paving_joint=1.0,
        terrain=(128, 120, 84),
        leaves=((104, 112, 62), (92, 100, 64)),
        trees={"broad": 2, "poplar": 2, "bush": 3},
        planting=0.015,
        forest=0.12,
        hills=0.0,
        skyline="roofs",
        yellow_lines=False,
        crossing=0.4,
        people=3,
        traffic=4.5,
        two_wheelers=1.5,
        bends=0.0007,
    ),
    # A dry southern town: low flat houses, palms, stone walls, hills.
    5: Town(
        lanes=(1, 2),
        lane_width=3.3,
        parking=0.5,
        sidewalk=(1.8, 3.2),
        verge=(0.3, 1.5),
        setback=(0.0, 2.5),
        beside={"building": 7, "wall": 3, "open": 1.2, "fence": 0.6, "hedge": 0.4},
        facades={"adobe": 8, "plaster": 1.5},
        floors=(1, 3),
        pitched=0.15,
        roofs=((190, 120, 84), (176, 104, 74)),
        walls=("render", "stone", "stone"),
        fences=("rails", "mesh"),
        asphalt=(122, 114, 106),
        paving=(202, 180, 150),
        paving_joint=0.7,
        terrain=(186, 158, 112),
        leaves=((98, 112, 60), (118, 120, 70)),
        trees={"palm": 5, "bush": 2, "broad": 0.8},
        planting=0.05,
        forest=0.12,
        hills=0.12,
        skyline="hills",
        yellow_lines=True,
        crossing=0.5,
        people=4.5,
        traffic=3.5,
        two_wheelers=2.4,
        bends=0.0014,
    ),
    # Boulevards of housing blocks with rows of trees.
    6: Town(
        lanes=(2,),
        lane_width=3.3,
        parking=0.6,
        sidewalk=(2.4, 4.0),
        verge=(2.0, 4.5),
        setback=(2.0, 8.0),
        beside={"building": 7, "open": 2, "hedge": 1.5, "fence": 1, "wall": 0.5},
        facades={"panel": 6, "brick": 2, "plaster": 1},
        floors=(4, 9),
        pitched=0.1,
        roofs=((110, 104, 100),),
        walls=("concrete", "brick"),
        fences=("rails", "mesh"),
        asphalt=(76, 78, 84),
        paving=(172, 150, 136),
        paving_joint=0.8,
        terrain=(96, 120, 66),
        leaves=((78, 114, 54), (120, 124, 50), (140, 112, 48)),
        trees={"broad": 6, "poplar": 2, "bush": 1},
        planting=0.11,
        forest=0.25,
        hills=0.0,
        skyline="towers",
        yellow_lines=False,
        crossing=0.65,
        people=5.5,
        traffic=5,
        two_wheelers=2.2,
        bends=0.0008,
    ),
    # Country: fields, woods, few houses.
    7: Town(
        lanes=(1,),
        lane_width=3.4,
        parking=0.05,
        sidewalk=(0.0, 0.0),
        verge=(1.5, 3.5),
        setback=(4.0, 14.0),
        beside={"open": 8, "hedge": 1.6, "fence": 2.4, "house": 1, "wall": 0.9},
        facades={"stone": 2, "siding": 2, "plaster": 2, "corrugated": 1},
        floors=(1, 2),
        pitched=1.0,
        roofs=((136, 80, 60), (92, 84, 80)),
        walls=("stone",),
        fences=("board", "mesh", "picket"),
        asphalt=(100, 98, 94),
        paving=(150, 138, 116),
        paving_joint=3.0,
        terrain=(112, 124, 58),
        leaves=((72, 104, 44), (96, 116, 50), (120, 120, 56)),
        trees={"broad": 5, "conifer": 3, "bush": 3, "poplar": 1},
        planting=0.1,
        forest=0.7,
        hills=0.07,
        skyline="trees",
        yellow_lines=False,
        crossing=0.25,
        people=1.6,
        traffic=2.2,
        two_wheelers=1.6,
        bends=0.0024,
    ),
}
"""The seven towns."""


def town_materials(town: int, variant: int = 0) -> Town:
    """A town with its facades chosen; a variant other than 0 shifts its colors and habits."""
    base = TOWNS[town]
    rng = draws("town", town, variant)
    styles, weights = list(base.facades), list(base.facades.values())
    palette = []
    for _ in range(10):
        style = rng.choices(styles, weights)[0]
        palette.append((style, rng.choice(FACADES[style])))
    base = replace(base, palette=tuple(palette))
    if variant == 0:
        return base

    def tinted(colour: RGB, spread: float) -> RGB:
        light = rng.uniform(0.85, 1.15)
        return tuple(
            round(min(max(c * light * rng.uniform(1 - spread, 1 + spread), 0), 255)) for c in colour
        )

    return replace(
        base,
        asphalt=tinted(base.asphalt, 0.03),
        paving=tinted(base.paving, 0.08),
        terrain=tinted(base.terrain, 0.08),
        leaves=tuple(tinted(colour, 0.08) for colour in base.leaves),
        roofs=tuple(tinted(colour, 0.08) for colour in base.roofs),
        planting=base.planting * rng.uniform(0.5, 1.6),
        people=base.people * rng.uniform(0.6, 1.5),
        traffic=base.traffic * rng.uniform(0.7, 1.4),
        parking=min(base.parking * rng.uniform(0.5, 1.6), 0.9),
        yellow_lines=False,
    )
