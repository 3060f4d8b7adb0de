"""Procedural street scenes with exact labels: seven towns, three weathers, five viewpoints."""

from .camera import VIEWPOINTS
from .ids import TO_CITYSCAPES, TO_IDDA
from .keys import draws, key
from .light import WEATHERS
from .scene import render, render_scene
from .towns import TOWNS

RENDERER_VERSION = 1
"""Raised whenever the same arguments give another picture."""

__all__ = [
    "RENDERER_VERSION",
    "TOWNS",
    "TO_CITYSCAPES",
    "TO_IDDA",
    "VIEWPOINTS",
    "WEATHERS",
    "draws",
    "key",
    "render",
    "render_scene",
]
