"""The ``pictures`` folder of a run: curves, IoU by class, a few predictions per domain.

A prediction is shown beside image and ground truth, with a legend.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedseg.evaluation import IoUMetric
from fedseg.report.compare import Side
from fedseg.report.compare_output import draw_curves
from fedseg.report.corruptions import corruption_table
from fedseg.report.figures import (
    draw_client_accuracy,
    draw_confusion,
    draw_corruptions,
    draw_iou_by_class,
    save_figure,
)
from fedseg.report.segmentation import Classes, Panel, read_classes, segmentation_figure
from fedseg.runs.run_files import read_run

if TYPE_CHECKING:
    from fedseg.evaluation.domains import DomainEvaluator
    from fedseg.evaluation.loops import FederatedValLoop
    from fedseg.evaluation.sets import EvaluationSet

LONGEST_NAME = 60  # characters of a file's name in the title
COMPARED_WIDTH = 3.3  # inches of a panel of several models


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
    """Draw image and prediction over it, ground truth and prediction, with title and legend."""
    file = example.file
    if len(file) > LONGEST_NAME:  # the end is what differs
        file = f"…{file[-LONGEST_NAME:]}"
    value = image_miou(example.truth, example.prediction, classes.ignore_index)
    score = "none" if value is None else f"{value:.1f}"
    image, prediction = example.image, example.prediction
    upper = [Panel("image", image), Panel("ground truth", class_map=example.truth)]
    lower = [
        Panel("prediction over image", image, prediction),
        Panel("prediction", class_map=prediction),
    ]
    title = f"{example.domain}   {file}   mIoU of this image: {score}"
    return segmentation_figure([upper, lower], classes, title)


def draw_comparison(
    rows: Sequence[Sequence[Example]], models: Sequence[str], classes: Classes
) -> Figure:
    """Draw image, ground truth and the prediction of each model, a row for each image."""
    panels = []
    for examples in rows:
        first = examples[0]
        row = [Panel("image", first.image), Panel("ground truth", class_map=first.truth)]
        for model, example in zip(models, examples, strict=True):
            row.append(Panel(model, class_map=example.prediction))
        panels.append(row)
    return segmentation_figure(panels, classes, width=COMPARED_WIDTH * len(panels[0]))


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
