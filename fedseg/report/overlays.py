"""Pictures of predictions: image, ground truth and prediction side by side, with a legend."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from matplotlib.patches import Patch

from fedseg.evaluation import IoUMetric
from fedseg.report.drawing import DPI, new_figure, save_figure

PANEL_WIDTH = 640  # about: a panel is the image, made smaller, or larger by a whole number
OPACITY = 0.5  # of the prediction over the image
GAP, MARGIN, TITLE, LINE = 8, 20, 30, 23  # pixels, as are the next two
LEGEND_WIDTH, LETTER = 160, 11  # of a class in the legend, of a letter in the title


@dataclass(frozen=True)
class Classes:
    """What the ids of a class map mean."""

    names: Sequence[str]
    palette: Sequence[Sequence[int]]  # RGB
    ignore_index: int = 255  # does not count in the truth

    def table(self) -> np.ndarray:
        """The color of every id, uint8 [256, 3]; ids without a class are black."""
        table = np.zeros((256, 3), np.uint8)
        table[: len(self.palette)] = np.asarray(self.palette, np.uint8)
        table[self.ignore_index] = 0
        return table


@dataclass(frozen=True)
class Example:
    """A predicted image."""

    image: np.ndarray  # uint8 [H, W, 3], RGB
    truth: np.ndarray  # integer [H', W'] class ids
    prediction: np.ndarray  # likewise, of the same size
    domain: str  # for the title, as is the file
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


def draw_example(example: Example, classes: Classes, path: Path, width: int = PANEL_WIDTH) -> Path:
    """Two by two panels, truth above prediction, with title and legend; a PNG."""
    parts = panels(example, classes, width)
    height, width = parts["image"].shape[:2]
    inner, row = 2 * width + GAP, LINE + height + GAP
    ids = occurring(example, classes)
    columns = max(1, inner // LEGEND_WIDTH)
    legend = LINE * -(-len(ids) // columns)
    full = inner + 2 * MARGIN, 2 * MARGIN + TITLE + 2 * row + legend
    # half a pixel more, for rounding down must not take one
    figure = new_figure((full[0] + 0.5) / DPI, (full[1] + 0.5) / DPI, layout=None)

    def write(x: int, y: int, text: str, size: int = 10, **style: Any) -> None:
        """Text at pixels from the upper left corner."""
        place = x / full[0], 1 - y / full[1]
        figure.text(*place, text, va="top", fontsize=size, **style)

    value = image_miou(example.truth, example.prediction, classes.ignore_index)
    score = "mIoU of this image: " + ("none" if value is None else f"{value:.1f}")
    letters = max(0, inner // LETTER - len(example.domain) - len(score))  # the end is what differs
    file = example.file if len(example.file) <= letters else f"…{example.file[-letters:]}"
    write(MARGIN, MARGIN, f"{example.domain}   {file}" if letters else example.domain)
    write(MARGIN + inner, MARGIN, score, ha="right", fontweight="bold")
    for number, (name, panel) in enumerate(parts.items()):
        x, y = MARGIN + number % 2 * (width + GAP), MARGIN + TITLE + number // 2 * row
        write(x, y, name, 9, color="0.4")
        figure.figimage(panel, x, full[1] - y - LINE - height, origin="upper")
    colors = classes.table() / 255
    figure.legend(
        [Patch(facecolor=colors[i], edgecolor="0.4") for i in ids],
        ["ignored" if i == classes.ignore_index else str(classes.names[i]) for i in ids],
        loc="lower left",
        bbox_to_anchor=(MARGIN / full[0], MARGIN / full[1]),
        ncols=columns,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        fontsize=8.5,
    )
    return save_figure(figure, path)


def _resize(array: np.ndarray, shape: tuple[int, ...], width: int, way: int) -> np.ndarray:
    """To about ``width``, from labels of this shape; smaller ones grow by a whole number."""
    height, w = shape
    factor = width / w if w > width else max(1, width // w)
    size = round(w * factor), max(1, round(height * factor))
    grows = size[0] >= array.shape[1]
    return cv2.resize(array, size, interpolation=cv2.INTER_NEAREST if grows else way)
