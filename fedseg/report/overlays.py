"""Pictures of predictions: image, ground truth and prediction side by side, with a legend."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from fedseg.evaluation import IoUMetric
from fedseg.files import atomic_writer

PANEL_WIDTH = 640  # about: a panel is the image, made smaller, or larger by a whole number
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
    if (truth == ignore_index).all():
        return None
    metric = IoUMetric(256, ignore_index)
    labels, predicted = (
        torch.from_numpy(np.ascontiguousarray(a))[None] for a in (truth, prediction)
    )
    metric.process({"data_samples": labels}, predicted)
    return metric.evaluate(1)["mIoU"]


def occurring(example: Example, classes: Classes) -> list[int]:
    """Ids that occur in truth or prediction, the ignored one last."""
    ids = {int(i) for ids in (example.truth, example.prediction) for i in np.unique(ids)}
    known = sorted(i for i in ids if i < len(classes.names) and i != classes.ignore_index)
    return known + [classes.ignore_index] * (classes.ignore_index in ids)


def panels(example: Example, classes: Classes, width: int = PANEL_WIDTH) -> dict[str, np.ndarray]:
    """The four panels by name, uint8 [h, w, 3] each, about ``width`` wide."""
    shape = example.truth.shape
    image = _resize(example.image, shape, width, cv2.INTER_AREA)
    truth, prediction = (
        classes.table()[_resize(ids.astype(np.uint8), shape, width, cv2.INTER_NEAREST)]
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
    parts = panels(example, classes, width)
    height, width = parts["image"].shape[:2]
    inner, row = 2 * width + GAP, LINE + height + GAP
    ids = occurring(example, classes)
    most = 26 * max(len(ids), 1)  # a legend of one class a row; what it does not need is cut off
    canvas = Image.new("RGB", (inner + 2 * MARGIN, 2 * MARGIN + 42 + 2 * row + most), PAPER)
    draw = ImageDraw.Draw(canvas)
    _draw_title(draw, example, classes, inner)
    for number, (name, panel) in enumerate(parts.items()):
        x, y = MARGIN + number % 2 * (width + GAP), MARGIN + 30 + number // 2 * row
        draw.text((x, y), name, GRAY, font(15))
        canvas.paste(Image.fromarray(panel), (x, y + LINE))
    end = _draw_legend(draw, ids, classes, MARGIN + 42 + 2 * row, inner)
    return np.asarray(canvas)[: end + MARGIN]


def save_png(path: Path, picture: np.ndarray) -> Path:
    """Write an RGB picture; makes the folder."""
    with atomic_writer(path, "wb") as file:
        Image.fromarray(picture).save(file, format="PNG")
    return path


def _resize(array: np.ndarray, shape: tuple[int, ...], width: int, way: int) -> np.ndarray:
    """To about ``width``, from labels of this shape; smaller ones grow by a whole number."""
    height, w = shape
    factor = width / w if w > width else max(1, width // w)
    size = round(w * factor), max(1, round(height * factor))
    grows = size[0] >= array.shape[1]
    return cv2.resize(array, size, interpolation=cv2.INTER_NEAREST if grows else way)


def _draw_title(draw: ImageDraw.ImageDraw, example: Example, classes: Classes, width: int) -> None:
    """Domain and file on the left, the image's mIoU on the right."""
    value = image_miou(example.truth, example.prediction, classes.ignore_index)
    score = "mIoU of this image: " + ("none" if value is None else f"{value:.1f}")
    bold, plain = font(17, bold=True), font(17)
    draw.text((MARGIN, MARGIN), example.domain, INK, bold)
    draw.text((MARGIN + width, MARGIN), score, INK, bold, anchor="ra")
    x = round(draw.textlength(example.domain, bold)) + 17
    room = width - draw.textlength(score, bold) - 17 - x
    letters = max(0, int(room // draw.textlength("m", plain)))  # the ends are what differs
    file = example.file if len(example.file) <= letters else f"…{example.file[-letters:]}"
    draw.text((MARGIN + x, MARGIN), file if letters else "", GRAY, plain)


def _draw_legend(
    draw: ImageDraw.ImageDraw, ids: Sequence[int], classes: Classes, y: int, width: int
) -> int:
    """Boxes with names, in rows as wide as fit; returns where the legend ends."""
    colors, x = classes.table().tolist(), 0
    for i in ids:
        name = "ignored" if i == classes.ignore_index else str(classes.names[i])
        needed = 42 + round(font(14).getlength(name))
        if x and x + needed > width:
            x, y = 0, y + 26
        box = (MARGIN + x, y, MARGIN + x + 16, y + 16)
        draw.rectangle(box, tuple(colors[i]), outline=GRAY)
        draw.text((MARGIN + x + 23, y - 1), name, INK, font(14))
        x += needed
    return y + 26


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with Matplotlib."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
