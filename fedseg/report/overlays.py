"""Pictures of predictions: image, ground truth and prediction side by side, with a legend."""

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
GAP, MARGIN, LINE = 8, 20, 23
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
        "ground truth": truth,
        "prediction over image": blend,
        "prediction": prediction,
    }


def draw_example(example: Example, classes: Classes, width: int = PANEL_WIDTH) -> np.ndarray:
    """One image: two by two panels, truth above prediction, with title and legend. RGB."""
    return prediction_sheet([example], classes, "", width, columns=2)


def prediction_sheet(
    examples: Sequence[Example],
    classes: Classes,
    title: str,
    width: int = SHEET_PANEL_WIDTH,
    columns: int = 4,
) -> np.ndarray:
    """Several images below each other, four panels each, with one legend. RGB.

    Args:
        examples: at least one.
        classes: of all of them.
        title: above the first; may be empty.
        width: of a panel, about.
        columns: panels beside each other.
    """
    parts = [panels(example, classes, width) for example in examples]
    widest = max(own["image"].shape[1] for own in parts)
    inner = columns * widest + (columns - 1) * GAP
    heights = [30 + 4 // columns * (LINE + own["image"].shape[0] + GAP) for own in parts]
    legend = _legend_rows(occurring(examples, classes), classes, inner)
    y = MARGIN + 32 * bool(title)
    size = inner + 2 * MARGIN, y + sum(heights) + 12 + 26 * len(legend) + MARGIN
    canvas = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(canvas)
    draw.text((MARGIN, MARGIN), title, INK, font(20, bold=True))
    for example, own, height in zip(examples, parts, heights, strict=True):
        _draw_title(draw, example, classes, MARGIN, y, MARGIN + inner, 17)
        for number, (name, panel) in enumerate(own.items()):
            x = MARGIN + number % columns * (widest + GAP)
            top = y + 30 + number // columns * (LINE + panel.shape[0] + GAP)
            draw.text((x, top), name, GRAY, font(15))
            canvas.paste(Image.fromarray(panel), (x, top + LINE))
        y += height
    _draw_legend(draw, legend, classes, MARGIN, y + 12)
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
    score_width = draw.textlength(score, font(size, bold=True))
    draw.text((right - score_width, y), score, INK, font(size, bold=True))
    draw.text((x, y), example.domain, INK, font(size, bold=True))
    x += round(draw.textlength(example.domain, font(size, bold=True))) + size
    room = right - score_width - size - x
    draw.text((x, y), _shortened(draw, example.file, font(size), room), GRAY, font(size))


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
        needed = 24 + round(font(14).getlength(_name(i, classes))) + 18
        if rows[-1] and x + needed > width:
            rows.append([])
            x = 0
        rows[-1].append((i, x))
        x += needed
    return rows


def _draw_legend(
    draw: ImageDraw.ImageDraw, rows: list[list[tuple[int, int]]], classes: Classes, x: int, y: int
) -> None:
    table = classes.table().tolist()
    for number, row in enumerate(rows):
        for i, offset in row:
            left, top = x + offset, y + number * 26
            draw.rectangle((left, top, left + 16, top + 16), tuple(table[i]), outline=GRAY)
            draw.text((left + 23, top - 1), _name(i, classes), INK, font(14))


def _name(i: int, classes: Classes) -> str:
    return "ignored" if i == classes.ignore_index else str(classes.names[i])


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with Matplotlib."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
