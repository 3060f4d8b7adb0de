"""The ``pictures`` folder of a run: curves, IoU by class, a few predictions per domain.

A prediction is shown beside image and ground truth, with a legend.
"""

import colorsys
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from fedseg.evaluation import IoUMetric
from fedseg.report.charts import draw_client_accuracy, draw_confusion, draw_iou_by_class
from fedseg.report.compare import Side
from fedseg.report.compare_output import draw_curves
from fedseg.report.corruptions import corruption_table, draw_corruptions
from fedseg.report.drawing import new_figure, save_figure
from fedseg.runs.run_files import read_run

if TYPE_CHECKING:
    from fedseg.evaluation.domains import DomainEvaluator
    from fedseg.evaluation.loops import FederatedValLoop
    from fedseg.evaluation.sets import EvaluationSet

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
        """The color of every id, uint8 [256 or more, 3]; ids without a class are black."""
        table = np.zeros((max(256, len(self.palette)), 3), np.uint8)
        table[: len(self.palette)] = self.palette
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
    largest = int(max(truth.max(), prediction.max()))
    metric = IoUMetric(max(256, largest + 1), ignore_index)
    labels, predicted = (torch.from_numpy(a[None].copy()) for a in (truth, prediction))
    metric.process([0], {"data_samples": labels}, predicted)
    return metric.evaluate()["mIoU"]


def draw_example(example: Example, classes: Classes) -> Figure:
    """Two by two panels, truth above prediction, with title and legend."""
    height, width = example.truth.shape
    columns = max(1, round(PANEL_WIDTH * 1.5))
    ids = _ids(classes, example.truth, example.prediction)
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
    _add_legend(figure, classes, ids, columns)
    return figure


def draw_comparison(
    rows: Sequence[Sequence[Example]], models: Sequence[str], classes: Classes
) -> Figure:
    """Image, ground truth and the prediction of each model, a row for each image, one legend."""
    height, width = rows[0][0].truth.shape
    ids = _ids(classes, *(m for row in rows for one in row for m in (one.truth, one.prediction)))
    columns, panel = 8, PANEL_WIDTH / 1.6
    legend = 0.2 * -(-len(ids) // columns)
    size = panel * (2 + len(models)), panel * height / width * len(rows) + legend + 0.5
    figure, colors = new_figure(*size), classes.table()
    grid = figure.subplots(len(rows), 2 + len(models), squeeze=False)
    for line, examples in zip(grid, rows, strict=True):
        first, extent = examples[0], (0, width, height, 0)
        maps = [first.truth, *(example.prediction for example in examples)]
        panels = [first.image, *(colors[one] for one in maps)]
        for axes, pixels in zip(line, panels, strict=True):
            axes.imshow(pixels, extent=extent, interpolation="nearest")
            axes.set_axis_off()
    for axes, name in zip(grid[0], ("image", "ground truth", *models), strict=True):
        axes.set_title(name, fontsize=10, loc="left")
    _add_legend(figure, classes, ids, columns)
    return figure


def _ids(classes: Classes, *maps: np.ndarray) -> list[int]:
    """The ids in maps that a legend names, the ignored one last."""
    ids = set().union(*(np.unique(one).tolist() for one in maps))
    known = sorted(i for i in ids if i < len(classes.names) and i != classes.ignore_index)
    return known + [classes.ignore_index] * (classes.ignore_index in ids)


def _add_legend(figure: Figure, classes: Classes, ids: Sequence[int], columns: int) -> None:
    colors = classes.table()
    patches = [Patch(facecolor=colors[i] / 255, edgecolor="0.4") for i in ids]
    names = ["ignored" if i == classes.ignore_index else str(classes.names[i]) for i in ids]
    style = {"frameon": False, "handlelength": 1.2, "fontsize": 8.5}
    figure.legend(patches, names, loc="outside lower left", ncols=columns, **style)


def write_charts(
    work_dir: str | Path, folder: Path, palette: list[list[int]] | None = None
) -> list[Path]:
    """Write ``curves.png`` and what else a run has: IoU by class, clients, corruptions."""
    run = read_run(work_dir, strict=False)
    curves = draw_curves([Side("", run.name, run.folder, (run,))], run.curves.figures)
    paths = [save_figure(curves, folder / "curves.png")]
    if run.results is None:
        return paths
    clients = run.results.extras.get("client_accuracy")
    lines = [record for record in run.history if record.get("client_accuracy")]
    if clients and lines:
        series = {record["round"]: record["client_accuracy"] for record in lines}
        figure = draw_client_accuracy(clients, series, run.name)
        paths.append(save_figure(figure, folder / "client_accuracy.png"))
    return paths + _write_domains(run.results.final, folder, palette, run.name)


def _write_domains(
    domains: Mapping[str, Mapping[str, Any]], folder: Path, palette: Any, title: str = ""
) -> list[Path]:
    """IoU by class; accuracy under corruptions."""
    paths = []
    if (by_class := draw_iou_by_class(domains, palette, title)) is not None:
        paths.append(save_figure(by_class, folder / "iou_by_class.png"))
    if (corrupted := corruption_table(domains)) is not None:
        figure = draw_corruptions(corrupted, title)
        paths.append(save_figure(figure, folder / "corruptions.png"))
    return paths


def write_test_pictures(
    loop: "FederatedValLoop", domains: Mapping[str, Mapping[str, Any]], folder: Path, count: int
) -> list[Path]:
    """The pictures of an evaluation: IoU by class of ``domains``, a few predictions of each."""
    paths = _write_domains(domains, folder, classes_of(loop.sets[0]).palette)
    for domain, entry in (loop.confusions or {}).items():
        paths.append(save_figure(draw_confusion(entry, domain), folder / f"confusion_{domain}.png"))
    return paths + write_overlays(loop.domains, *loop.runner.evaluated_model(), folder, count)


def write_overlays(
    evaluator: "DomainEvaluator", w: Tensor, buffers: Tensor, folder: Path, count: int = 3
) -> list[Path]:
    """Predict ``count`` images of every test set, spread evenly over it, and draw them.

    For every domain, under every kind of BatchNorm statistics that it is evaluated with:
    ``<domain>/<sample index>_<file>.png``. Test sets without label maps are left out. ``w`` and
    ``buffers`` are the model, flat.
    """
    paths = []
    for test, domain, index, example in predict_examples(evaluator, w, buffers, count):
        stem = re.sub(r"[^\w.-]+", "_", Path(example.file).stem)
        figure = draw_example(example, classes_of(test))
        paths.append(save_figure(figure, folder / domain / f"{index:05d}_{stem}.png"))
    return paths


def predict_examples(
    evaluator: "DomainEvaluator", w: Tensor, buffers: Tensor, count: int
) -> Iterator[tuple["EvaluationSet", str, int, Example]]:
    """(set, view, sample index, example) of ``count`` images of every test set, in every view."""
    sets = filter(_is_segmentation, evaluator.sets)
    chosen = {test.name: test.samples[spread(count, len(test.samples))].tolist() for test in sets}
    for test, domain, index, prediction in evaluator.predict_some(w, buffers, chosen):
        yield test, domain, index, _example(test, index, prediction.cpu().numpy())


def spread(count: int, total: int) -> list[int]:
    """At most ``count`` indices below ``total``, the centers of equal pieces."""
    count = min(count, total)
    return [int((i + 0.5) * total / count) for i in range(count)]


def classes_of(test: "EvaluationSet") -> Classes:
    """Names and colors of a test set's classes; numbers and hues where it has none."""
    return read_classes(getattr(test.dataset, "metainfo", None) or {})


def read_classes(meta: Mapping[str, Any]) -> Classes:
    """The same of a data set's ``metainfo``."""
    names = meta.get("classes") or [str(i) for i in range(256)]
    palette = meta.get("palette") or _colors(len(names))
    return Classes(names, palette, meta.get("ignore_index", 255))


def _colors(count: int) -> list[list[int]]:
    """Colors of hues far apart, by the golden ratio."""
    hues = [(i * 0.61803399) % 1 for i in range(count)]
    return [[round(255 * c) for c in colorsys.hsv_to_rgb(h, 0.65, 0.9)] for h in hues]


def _is_segmentation(test: "EvaluationSet") -> bool:
    """True if the labels are maps and the inputs pictures."""
    image, label = _sample(test.dataset, 0)
    return getattr(label, "ndim", 0) == 2 and getattr(image, "ndim", 0) == 3 and len(image) == 3


def _sample(dataset: Any, index: int) -> tuple[Any, Any]:
    item = dataset[index]
    return item.get("inputs"), item.get("data_samples")


def _example(test: "EvaluationSet", index: int, prediction: np.ndarray) -> Example:
    image, label = _sample(test.dataset, index)
    files, domains = getattr(test.dataset, "files", None), test.domains
    return Example(
        image=as_picture(np.asarray(image)),
        truth=np.asarray(label),
        prediction=prediction,
        domain=domains[index] if domains is not None else test.name,
        file=Path(files[index][0]).name if files is not None else f"sample {index}",
    )


def as_picture(image: np.ndarray) -> np.ndarray:
    """[3, H, W] of any type as uint8 [H, W, 3]; floats are stretched to their own range."""
    image = np.ascontiguousarray(image.transpose(1, 2, 0))
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    return np.round((image - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)
