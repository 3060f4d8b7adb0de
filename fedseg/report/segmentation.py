"""The one picture of class maps: photographs, maps over them, and a legend of their classes."""

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torchvision.utils import draw_segmentation_masks

from fedseg.report.figures import new_figure

OPACITY = 0.5  # of a class map over its photograph
LARGEST = 1600  # pixels of a panel's longer side
NO_CLASS = -1  # in a class map: the photograph is shown as it is
LEGEND_LINE = 0.2  # inches


@dataclass(frozen=True)
class Classes:
    """Names and colors of the ids of a class map."""

    names: Sequence[str]
    palette: Sequence[Sequence[int]]  # RGB
    ignore_index: int = 255  # does not count in the truth

    def table(self) -> np.ndarray:
        """The color of every id, uint8 [256 or more, 3]; ids without a class are black."""
        table = np.zeros((max(256, len(self.palette)), 3), np.uint8)
        table[: len(self.palette)] = self.palette
        table[self.ignore_index] = 0
        return table

    def name(self, id_: int) -> str:
        """The name of an id; its number where it has none."""
        if id_ == self.ignore_index:
            return "ignored"
        return str(self.names[id_]) if id_ < len(self.names) else str(id_)


@dataclass(frozen=True)
class Panel:
    """A photograph, a class map, or the map over the photograph."""

    title: str = ""
    image: np.ndarray | None = None  # uint8 [H, W, 3], RGB
    class_map: np.ndarray | None = None  # integer [H', W']


def read_classes(meta: Mapping[str, Any]) -> Classes:
    """Read names and colors from ``metainfo``; numbers and hues far apart where it has none."""
    names = meta.get("classes") or [str(i) for i in range(256)]
    palette = meta.get("palette") or _hues(len(names))
    return Classes(names, palette, meta.get("ignore_index", 255))


def _hues(count: int) -> list[list[int]]:
    """Choose hues far apart, by the golden ratio."""
    hues = [(i * 0.61803399) % 1 for i in range(count)]
    return [[round(255 * c) for c in colorsys.hsv_to_rgb(hue, 0.65, 0.9)] for hue in hues]


def paint(panel: Panel, classes: Classes) -> np.ndarray:
    """Paint a panel, uint8 [H, W, 3]; its longer side has at most :data:`LARGEST` pixels.

    A photograph takes the size of its class map.
    """
    if panel.class_map is None:
        height, width = panel.image.shape[:2]
    else:
        height, width = panel.class_map.shape
    scale = min(1, LARGEST / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    image = np.zeros((size[1], size[0], 3), np.uint8)
    opacity = 1.0
    if panel.image is not None:
        image = cv2.resize(panel.image, size, interpolation=cv2.INTER_AREA)
        opacity = OPACITY
    if panel.class_map is None:
        return image
    ids = cv2.resize(panel.class_map.astype(np.int32), size, interpolation=cv2.INTER_NEAREST)
    present = np.setdiff1d(ids, NO_CLASS)
    colors = [tuple(color) for color in classes.table()[present].tolist()]
    masks = torch.from_numpy(ids == present[:, None, None])
    pixels = torch.from_numpy(image.transpose(2, 0, 1).copy())
    return draw_segmentation_masks(pixels, masks, opacity, colors).numpy().transpose(1, 2, 0)


def segmentation_figure(
    rows: Sequence[Sequence[Panel]], classes: Classes, title: str = "", width: float = 10.6
) -> Figure:
    """Draw panels in rows of equal length, with one legend of the classes that occur in them.

    Args:
        rows: of panels; an empty title takes no room.
        classes: of all class maps.
        title: of the figure.
        width: of the figure in inches.
    """
    columns = len(rows[0])
    pictures = [[paint(panel, classes) for panel in row] for row in rows]
    ratios = [max(p.shape[0] / p.shape[1] for p in row) for row in pictures]
    titled = [any(panel.title for panel in row) for row in rows]
    maps = [panel.class_map for row in rows for panel in row if panel.class_map is not None]
    ids = _legend_ids(maps, classes)
    names = [classes.name(id_) for id_ in ids]
    legend_columns = _legend_columns(names, width)
    legend_lines = -(-len(ids) // legend_columns)
    height = sum(ratios) * width / columns + 0.3 * sum(titled) + LEGEND_LINE * legend_lines
    figure = new_figure(width, height + 0.2 + 0.3 * bool(title))
    figure.suptitle(title, fontsize=10)
    grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=ratios)
    for axes_row, row, row_pictures in zip(grid, rows, pictures, strict=True):
        for axes, panel, picture in zip(axes_row, row, row_pictures, strict=True):
            axes.imshow(picture)
            axes.set_title(panel.title, fontsize=9, color="0.4", loc="left")
            axes.set_axis_off()
    colors = classes.table() / 255
    patches = [Patch(facecolor=colors[id_], edgecolor="0.4") for id_ in ids]
    if patches:
        style = {"frameon": False, "handlelength": 1.2, "fontsize": 8.5}
        figure.legend(patches, names, loc="outside lower left", ncols=legend_columns, **style)
    return figure


def _legend_ids(maps: Sequence[np.ndarray], classes: Classes) -> list[int]:
    """List the ids in class maps, the ignored one last."""
    ids: set[int] = set()
    for class_map in maps:
        ids.update(np.unique(class_map).tolist())
    ids.discard(NO_CLASS)
    return sorted(ids, key=lambda id_: (id_ == classes.ignore_index, id_))


def _legend_columns(names: Sequence[str], width: float) -> int:
    """Count the columns of a legend whose names do not overprint."""
    longest = max((len(name) for name in names), default=0)
    return max(1, int(width / (0.45 + 0.065 * longest)))
