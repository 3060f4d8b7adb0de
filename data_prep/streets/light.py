"""Sun, sky and air of the three weathers."""

import math
from dataclasses import dataclass
from functools import cached_property

from .keys import draws

Colour = tuple[float, float, float]

WEATHERS = ("CN", "CS", "HRN")


@dataclass(frozen=True)
class Light:
    """Directions are in the road frame; colors are factors around one, sky and fog 0 to 255.

    ``towards`` is the unit vector to the sun, ``sun`` its color times strength (zero under rain
    clouds), ``ambient`` the sky's light, ``fog`` (1/m) the extinction of the air.
    """

    weather: str
    towards: Colour
    sun: Colour
    ambient: Colour
    zenith: Colour
    horizon: Colour
    cloud: Colour
    cover: float
    fog: float
    fog_colour: Colour
    glass: Colour
    headlights: bool

    @property
    def wet(self) -> bool:
        """Whether roads mirror."""
        return self.weather == "HRN"

    @property
    def shadows(self) -> bool:
        """Whether the sun throws shadows."""
        return self.sun[0] > 0

    def gain(self, normal: Colour) -> Colour:
        """Factors on a surface's color."""
        x, y, z = normal
        towards, ambient, sun = self.towards, self.ambient, self.sun
        cosine = max(x * towards[0] + y * towards[1] + z * towards[2], 0.0)
        sky = 0.82 + 0.18 * y
        return (
            ambient[0] * sky + sun[0] * cosine,
            ambient[1] * sky + sun[1] * cosine,
            ambient[2] * sky + sun[2] * cosine,
        )

    def glass_gain(self, normal: Colour) -> Colour:
        """Panes that look up mirror the sky, panes that face the sun mirror it."""
        red, green, blue = self.gain(normal)
        mirror = 0.225 + 0.375 * max(normal[1], 0.0)
        return mirror * (1 + red), mirror * (1 + green), mirror * (1 + blue)

    @cached_property
    def upright(self) -> Colour:
        """Factors for pictures without a normal of their own (plants, people)."""
        facing = max(-self.towards[2], 0.0) * 0.5 + 0.28 + 0.25 * self.towards[1]
        return tuple(a * 0.9 + s * facing for a, s in zip(self.ambient, self.sun, strict=True))


def light_for(weather: str, *key: object) -> Light:
    """Draw the light of one scene."""
    rng = draws("light", weather, *key)
    azimuth = rng.choice((-1, 1)) * math.radians(rng.uniform(25, 150))
    if weather == "CN":
        height = math.radians(rng.uniform(48, 66))
        strength = rng.uniform(0.74, 0.9)
        haze = rng.uniform(0.9, 1.08)
        return Light(
            weather,
            _direction(azimuth, height),
            sun=_times((1.0, 0.97, 0.90), strength),
            ambient=_times((0.52, 0.56, 0.63), haze),
            zenith=_times((70, 128, 206), haze),
            horizon=(192, 214, 232),
            cloud=(250, 250, 250),
            cover=rng.uniform(0.36, 0.62),
            fog=rng.uniform(0.0008, 0.0018),
            fog_colour=(196, 212, 226),
            glass=(70, 84, 98),
            headlights=False,
        )
    if weather == "CS":
        height = math.radians(rng.uniform(9, 19))
        warmth = rng.uniform(0.85, 1.1)
        return Light(
            weather,
            _direction(azimuth, height),
            sun=_times((1.16, 0.80, 0.46), warmth),
            ambient=(0.55, 0.53, 0.61),
            zenith=(92, 120, 176),
            horizon=(252, 200 + 18 * (1 - warmth), 136),
            cloud=(250, 176, 140),
            cover=rng.uniform(0.42, 0.66),
            fog=rng.uniform(0.0015, 0.003),
            fog_colour=(236, 188, 150),
            glass=(78, 76, 88),
            headlights=rng.random() < 0.3,
        )
    dim = rng.uniform(0.86, 1.06)
    return Light(
        weather,
        (0.0, 1.0, 0.0),
        sun=(0.0, 0.0, 0.0),
        ambient=_times((0.66, 0.71, 0.75), dim),
        zenith=_times((138, 146, 155), dim),
        horizon=_times((188, 194, 198), dim),
        cloud=_times((108, 115, 124), dim),
        cover=0.9,
        fog=rng.uniform(0.008, 0.019),
        fog_colour=_times((168, 176, 182), dim),
        glass=(66, 76, 84),
        headlights=True,
    )


def _direction(azimuth: float, height: float) -> Colour:
    flat = math.cos(height)
    return (flat * math.sin(azimuth), math.sin(height), flat * math.cos(azimuth))


def _times(colour: Colour, factor: float) -> Colour:
    return tuple(channel * factor for channel in colour)
