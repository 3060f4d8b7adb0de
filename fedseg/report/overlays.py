"""Pictures of predictions: image, ground truth and prediction side by side, with a legend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedseg.evaluation import IoUMetric
from fedseg.report.drawing import new_figure

PANEL_WIDTH = 5.3  # inches
OPACITY = 0.5  # of the prediction over the image
LONGEST_NAME = 60  # characters of a file's name in the title


@dataclass(frozen=True)
class Classes:
    """Names and colors of the ids of a class map."""

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


def draw_example(example: Example, classes: Classes) -> Figure:
    """Two by two panels, truth above prediction, with title and legend."""
    height, width = example.truth.shape
    ids = np.union1d(example.truth, example.prediction).astype(int)
    known = [i for i in ids if i < len(classes.names) and i != classes.ignore_index]
    ids = known + [classes.ignore_index] * (classes.ignore_index in ids)
    columns = max(1, round(PANEL_WIDTH * 1.5))
    legend = 0.2 * -(-len(ids) // columns)
    figure = new_figure(2 * PANEL_WIDTH, 2 * PANEL_WIDTH * height / width + legend + 1)
    file = example.file
    if len(file) > LONGEST_NAME:  # the end is what differs
        file = f"…{file[-LONGEST_NAME:]}"
    value = image_miou(example.truth, example.prediction, classes.ignore_index)
    score = "none" if value is None else f"{value:.1f}"
    figure.suptitle(f"{example.domain}   {file}   mIoU of this image: {score}", fontsize=10)
    colors = classes.table()
    truth, prediction = colors[example.truth], colors[example.prediction]
    (upper_left, upper_right), (lower_left, lower_right) = figure.subplots(2, 2)
    extent = (0, width, height, 0)  # image and label may differ in size
    map_style = {"extent": extent, "interpolation": "nearest"}
    upper_left.imshow(example.image, extent=extent)
    upper_right.imshow(truth, **map_style)
    lower_left.imshow(example.image, extent=extent)
    lower_left.imshow(prediction, alpha=OPACITY, **map_style)
    lower_right.imshow(prediction, **map_style)
    names = "image", "ground truth", "prediction over image", "prediction"
    for axes, name in zip(figure.axes, names, strict=True):
        axes.set_title(name, fontsize=9, color="0.4", loc="left")
        axes.set_axis_off()
    figure.legend(
        [Patch(facecolor=colors[i] / 255, edgecolor="0.4") for i in ids],
        ["ignored" if i == classes.ignore_index else str(classes.names[i]) for i in ids],
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        handlelength=1.2,
        fontsize=8.5,
    )
    return figure
