"""Pictures of predictions: image, truth and prediction beside each other, with a legend."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from fedseg.files import atomic_writer

PANEL_WIDTH = 640  # about: a panel is the image, made smaller, or larger by a whole number
SHEET_PANEL_WIDTH = 360
OPACITY = 0.5  # of the prediction over the image
GAP, MARGIN = 8, 20
INK, GRAY, PAPER, IGNORED = (30, 30, 30), (110, 110, 110), (255, 255, 255), (0, 0, 0)


@dataclass(frozen=True)
class Classes:
    """What the ids of a class map mean.

    Attributes:
        names, palette: of each class; colors are RGB.
        ignore_index: the id that does not count in the truth.
    """

    names: Sequence[str]
    palette: Sequence[Sequence[int]]
    ignore_index: int = 255

    def table(self) -> np.ndarray:
        """The color of every id, uint8 [256, 3]; ids without a class are black."""
        table = np.zeros((256, 3), np.uint8)
        table[: len(self.palette)] = np.asarray(self.palette, np.uint8)
        table[self.ignore_index] = IGNORED
        return table


@dataclass(frozen=True)
class Example:
    """A predicted image.

    Attributes:
        image: uint8 [H, W, 3], RGB.
        truth, prediction: integer [H', W'] class ids of the same size.
        domain, file: for the title.
    """

    image: np.ndarray
    truth: np.ndarray
    prediction: np.ndarray
    domain: str
    file: str


def image_miou(truth: np.ndarray, prediction: np.ndarray, ignore_index: int = 255) -> float | None:
    """mIoU of one image in percent, over the classes in its truth; None if it has no label."""
    valid = truth != ignore_index
    truth, prediction = truth[valid].astype(np.int64), prediction[valid].astype(np.int64)
    if not truth.size:
        return None
    count = int(max(truth.max(), prediction.max())) + 1
    confusion = np.bincount(truth * count + prediction, minlength=count**2).reshape(count, count)
    hits = confusion.diagonal()
    union = confusion.sum(0) + confusion.sum(1) - hits
    present = confusion.sum(1) > 0
    return 100 * float(np.mean(hits[present] / union[present]))


def occurring(examples: Sequence[Example], classes: Classes) -> list[int]:
    """Ids that occur in truth or prediction, the ignored one last."""
    ids = {int(i) for e in examples for m in (e.truth, e.prediction) for i in np.unique(m)}
    known = sorted(i for i in ids if i < len(classes.names) and i != classes.ignore_index)
    return known + [classes.ignore_index] * (classes.ignore_index in ids)


def panels(example: Example, classes: Classes, width: int = PANEL_WIDTH) -> dict[str, np.ndarray]:
    """The four panels by name, uint8 [h, w, 3] each, about ``width`` wide."""
    size = _panel_size(example.truth.shape, width)
    table = classes.table()
    image = _resize(example.image, size, cv2.INTER_AREA)
    truth, prediction = (
        table[_resize(ids.astype(np.uint8), size, cv2.INTER_NEAREST)]
        for ids in (example.truth, example.prediction)
    )
    blend = cv2.addWeighted(prediction, OPACITY, image, 1 - OPACITY, 0)
    return {
        "image": image,
        "truth": truth,
        "prediction over image": blend,
        "prediction": prediction,
    }


def draw_example(example: Example, classes: Classes, width: int = PANEL_WIDTH) -> np.ndarray:
    """One image: two by two panels, truth above prediction; title above, legend below. RGB."""
    parts = panels(example, classes, width)
    height, width = parts["image"].shape[:2]
    line = _font(15).size + 8
    total_width = 2 * width + GAP + 2 * MARGIN
    legend = _legend_rows(occurring([example], classes), classes, total_width - 2 * MARGIN)
    top = MARGIN + 30
    total_height = top + 2 * (line + height) + GAP + 12 + len(legend) * 26 + MARGIN
    canvas = Image.new("RGB", (total_width, total_height), PAPER)
    _draw_title(ImageDraw.Draw(canvas), example, classes, MARGIN, MARGIN, total_width - MARGIN, 19)
    for number, (name, panel) in enumerate(parts.items()):
        x = MARGIN + (number % 2) * (width + GAP)
        y = top + (number // 2) * (height + line + GAP)
        ImageDraw.Draw(canvas).text((x, y), name, GRAY, _font(15))
        canvas.paste(Image.fromarray(panel), (x, y + line))
    _draw_legend(canvas, legend, classes, MARGIN, total_height - MARGIN - len(legend) * 26)
    return np.asarray(canvas)


def contact_sheet(
    examples: Sequence[Example], classes: Classes, title: str, width: int = SHEET_PANEL_WIDTH
) -> np.ndarray:
    """Several images below each other, a row of four panels each, with one legend. RGB."""
    rows = [panels(example, classes, width) for example in examples]
    widths = [row["image"].shape[1] for row in rows]
    total_width = 4 * max(widths) + 3 * GAP + 2 * MARGIN
    legend = _legend_rows(occurring(examples, classes), classes, total_width - 2 * MARGIN)
    line = 30
    heights = [row["image"].shape[0] for row in rows]
    top = MARGIN + 32 + 24
    total_height = top + sum(heights) + len(rows) * (line + GAP) + 12 + len(legend) * 26 + MARGIN
    canvas = Image.new("RGB", (total_width, total_height), PAPER)
    draw = ImageDraw.Draw(canvas)
    draw.text((MARGIN, MARGIN), title, INK, _font(20, bold=True))
    for column, name in enumerate(rows[0] if rows else ()):
        draw.text((MARGIN + column * (max(widths) + GAP), top - 24), name, GRAY, _font(15))
    y = top
    for example, row, height in zip(examples, rows, heights, strict=True):
        right = MARGIN + 4 * max(widths) + 3 * GAP
        _draw_title(draw, example, classes, MARGIN, y + 4, right, 15)
        for column, panel in enumerate(row.values()):
            x = MARGIN + column * (max(widths) + GAP)
            canvas.paste(Image.fromarray(panel), (x, y + line))
        y += line + height + GAP
    _draw_legend(canvas, legend, classes, MARGIN, total_height - MARGIN - len(legend) * 26)
    return np.asarray(canvas)


def save_png(path: Path, picture: np.ndarray) -> Path:
    """Write an RGB picture; makes the folder."""
    with atomic_writer(path, "wb") as file:
        Image.fromarray(picture).save(file, format="PNG")
    return path


def _panel_size(shape: tuple[int, ...], width: int) -> tuple[int, int]:
    """(width, height) of a panel. Small images grow by a whole number: pixels stay square."""
    h, w = shape[:2]
    if w > width:
        return width, max(1, round(h * width / w))
    factor = max(1, width // w)
    return w * factor, h * factor


def _resize(array: np.ndarray, size: tuple[int, int], smaller: int) -> np.ndarray:
    if array.shape[1::-1] == size:
        return array
    grows = size[0] >= array.shape[1]
    return cv2.resize(array, size, interpolation=cv2.INTER_NEAREST if grows else smaller)


def _draw_title(
    draw: ImageDraw.ImageDraw,
    example: Example,
    classes: Classes,
    x: int,
    y: int,
    right: int,
    size: int,
) -> None:
    """Domain and file on the left, the image's mIoU on the right."""
    value = image_miou(example.truth, example.prediction, classes.ignore_index)
    score = "mIoU of this image: none" if value is None else f"mIoU of this image: {value:.1f}"
    score_width = draw.textlength(score, _font(size, bold=True))
    draw.text((right - score_width, y), score, INK, _font(size, bold=True))
    draw.text((x, y), example.domain, INK, _font(size, bold=True))
    x += round(draw.textlength(example.domain, _font(size, bold=True))) + size
    room = right - score_width - size - x
    draw.text((x, y), _shortened(draw, example.file, _font(size), room), GRAY, _font(size))


def _shortened(
    draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont, room: float
) -> str:
    """The end of a text that is too long: that is where file names differ."""
    if draw.textlength(text, font) <= room:
        return text
    while text and draw.textlength(f"…{text}", font) > room:
        text = text[1:]
    return f"…{text}" if text else ""


def _legend_rows(ids: Sequence[int], classes: Classes, width: int) -> list[list[tuple[int, int]]]:
    """Rows of (id, x offset) that fit into ``width``."""
    rows: list[list[tuple[int, int]]] = [[]]
    x = 0
    for i in ids:
        needed = 24 + round(_font(14).getlength(_name(i, classes))) + 18
        if rows[-1] and x + needed > width:
            rows.append([])
            x = 0
        rows[-1].append((i, x))
        x += needed
    return rows


def _draw_legend(
    canvas: Image.Image, rows: list[list[tuple[int, int]]], classes: Classes, x: int, y: int
) -> None:
    draw, table = ImageDraw.Draw(canvas), classes.table()
    for number, row in enumerate(rows):
        for i, offset in row:
            left, top = x + offset, y + number * 26
            color = tuple(int(c) for c in table[i])
            draw.rectangle((left, top, left + 16, top + 16), color, outline=GRAY)
            draw.text((left + 23, top - 1), _name(i, classes), INK, _font(14))


def _name(i: int, classes: Classes) -> str:
    return "ignored" if i == classes.ignore_index else str(classes.names[i])


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which Matplotlib brings along."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
