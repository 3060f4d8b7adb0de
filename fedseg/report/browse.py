"""A contact sheet of the images that clients train on, after augmentation, with their labels."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from torch import Tensor
from torchvision.utils import make_grid

from fedseg.config.check import drop_weights
from fedseg.core.client_data import ClientData, Job
from fedseg.report.figures import new_figure, save_figure
from fedseg.report.pictures import spread
from fedseg.report.segmentation import (
    NO_CLASS,
    Classes,
    Panel,
    read_classes,
    segmentation_figure,
)
from fedseg.runner.build import build_trainer

PADDING = 2  # pixels between images
CELL = 1.5  # inches of an image with a class below
CHARACTERS = 16  # of a line of text below an image
TEXT_LINE = 0.16  # inches


@dataclass(frozen=True)
class ClientImages:
    """The first images that a client trains on.

    Attributes:
        title: the client and how many images it has.
        images: of any type, [N, C, H, W].
        labels: class maps [N, H, W], class ids [N], or shares of the classes [N, K].
    """

    title: str
    images: Tensor
    labels: Tensor


def write_contact_sheet(
    config: Config, out: Path, clients: int = 10, images: int = 6, round_: int = 1
) -> Path:
    """Write the first training images of some clients in a round as one picture.

    Args:
        config: complete; its model is built without weights.
        out: the picture; its suffix is the format.
        clients: number of clients, spread evenly over all.
        images: largest number of images per client.
        round_: whose augmentation is shown.
    """
    drop_weights(config.model)
    config["load_from"] = None
    data = build_trainer(config).data
    rows = []
    for client in spread(clients, len(data.clients)):
        job = Job(round_, 0, client)
        inputs, labels = _first_images(data, job, images)
        title = f"{data.clients[client]}: {data.sizes[client]} images"
        rows.append(ClientImages(title=title, images=inputs, labels=labels))
    classes = read_classes(getattr(data.dataset, "metainfo", None) or {})
    title = f"{config.get('experiment_name', 'clients')}, round {round_}, after the augmentation"
    if rows[0].labels.ndim == 3:
        return save_figure(draw_maps(rows, classes, title), out)
    return save_figure(draw_classes(rows, classes, title), out)


def _first_images(data: ClientData, job: Job, count: int) -> tuple[Tensor, Tensor]:
    """The first ``count`` images of a client with their labels."""
    data.start([job])
    images: list[Tensor] = []
    labels: list[Tensor] = []
    for batch in data.batches(job):
        images.extend(batch["inputs"])
        labels.extend(batch["data_samples"])
        if len(images) >= count:
            break
    data.close()
    return torch.stack(images[:count]).cpu(), torch.stack(labels[:count]).cpu()


def draw_maps(rows: Sequence[ClientImages], classes: Classes, title: str) -> Figure:
    """Draw a row for each client: its images, and the class maps over them."""
    panels = []
    for row in rows:
        image = _grid(row.images)
        maps = row.labels[:, None].int()
        class_map = make_grid(maps, len(maps), PADDING, pad_value=NO_CLASS)[0].numpy()
        panels.append([Panel(row.title, image), Panel("labels", image, class_map)])
    return segmentation_figure(panels, classes, title, width=16)


def _grid(images: Tensor) -> np.ndarray:
    """Images [N, C, H, W] in one row, uint8 [H', W', 3]; each float one fills its own range."""
    if images.dtype == torch.uint8:
        grid = make_grid(images, len(images), PADDING, pad_value=255)
    else:
        grid = make_grid(images, len(images), PADDING, True, scale_each=True, pad_value=1)
        grid = (grid * 255).round().to(torch.uint8)
    return grid.permute(1, 2, 0).numpy()


def draw_classes(rows: Sequence[ClientImages], classes: Classes, title: str) -> Figure:
    """Draw a row of images for each client, the class of each below."""
    texts = [[_class_text(label, classes) for label in row.labels] for row in rows]
    lines = max(text.count("\n") + 1 for row_texts in texts for text in row_texts)
    columns = max(len(row.images) for row in rows)
    height = (CELL + 0.3 + TEXT_LINE * lines) * len(rows) + 0.4
    figure = new_figure(max(CELL * columns, 6), height)
    figure.suptitle(title, fontsize=10)
    grid = figure.subplots(len(rows), squeeze=False)[:, 0]
    for axes, row, row_texts in zip(grid, rows, texts, strict=True):
        picture = _grid(row.images)
        axes.imshow(picture)
        axes.set_anchor("W")
        axes.set_title(row.title, fontsize=9, loc="left")
        step = row.images.shape[3] + PADDING
        middles = [PADDING / 2 + step * (number + 0.5) for number in range(len(row_texts))]
        axes.set_xticks(middles, row_texts, fontsize=8)
        axes.set_yticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlim(0, columns * step + PADDING)
    return figure


def _class_text(label: Tensor, classes: Classes) -> str:
    """The class of an image, or the shares of a mixture's classes, in short lines."""
    if label.ndim == 0:
        lines = [classes.name(int(label))]
    else:
        shares = [(classes.name(id_), float(label[id_])) for id_ in label.nonzero()[:, 0].tolist()]
        lines = [f"{name} {share:.2f}".removesuffix(" 1.00") for name, share in shares]
    return "\n".join(textwrap.fill(line, CHARACTERS) for line in lines)
