"""A page of the images that clients train on, after augmentation, with their labels."""

import base64
import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from PIL import Image
from torch import Tensor

from fedseg.config.check import drop_weights
from fedseg.core.client_data import Job
from fedseg.files import write_text
from fedseg.report.pictures import OPACITY, as_picture, read_classes, spread
from fedseg.runner.build import build_trainer

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2em; color-scheme: light dark }}
figure {{ display: inline-block; margin: 0 .6em .6em 0; vertical-align: top }}
img {{ display: block; height: 160px; image-rendering: pixelated }}
figcaption {{ font-size: 13px }} i {{ display: inline-block; width: 1em; height: 1em }}
</style><h1>{title}</h1><p>Round {round}, after the augmentation. {legend}</p>{clients}</html>
"""


def write_page(
    config: Config, out: Path, clients: int = 10, images: int = 6, round_: int = 1
) -> Path:
    """The first training images of some clients in a round, as an HTML page.

    Args:
        config: complete; its model is built without weights.
        clients: so many, spread evenly over all. images: of each, at most.
    """
    drop_weights(config.model)
    config["load_from"] = None
    data = build_trainer(config).data
    classes = read_classes(getattr(data.dataset, "metainfo", None) or {})
    jobs = [Job(round_, 0, client) for client in spread(clients, len(data.clients))]
    maps, parts = False, []
    for job in jobs:
        data.start([job])
        shown: list[str] = []
        for batch in data.batches(job):
            inputs, labels = batch["inputs"], batch["data_samples"]
            maps = labels.ndim == 3
            shown += [_figure(x, y, classes) for x, y in zip(inputs, labels, strict=True)]
            if len(shown) >= images:
                break
        data.close()
        held = f"{escape(str(data.clients[job.client]))}: {data.sizes[job.client]} images"
        parts.append(f"<h2>{held}</h2>{''.join(shown[:images])}")
    legend = " ".join(
        f'<span><i style="background: rgb{tuple(color)}"></i> {escape(str(name))}</span>'
        for name, color in zip(classes.names, classes.palette, strict=False)
    )
    title = escape(str(config.get("experiment_name", "clients")))
    values = {"title": title, "round": round_, "legend": legend * maps, "clients": "".join(parts)}
    write_text(out, PAGE.format(**values))
    return out


def _figure(image: Tensor, label: Tensor, classes: Any) -> str:
    """An image, and its class map over it or the name of its class below."""
    pixels, label = as_picture(image.cpu().numpy()), label.cpu().numpy()
    pixels = np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels
    if label.ndim == 2:
        colors = classes.table()[label]
        mixed = (
            pixels * (1 - OPACITY) + colors * OPACITY if pixels.shape == colors.shape else colors
        )
        return _picture(pixels) + _picture(mixed.round().astype(np.uint8))
    shares = label if label.ndim else np.eye(len(classes.names))[int(label)]  # of a mixture
    names = [f"{classes.names[c]} {shares[c]:.2f}" for c in np.flatnonzero(shares)]
    text = ", ".join(names).replace(" 1.00", "")
    return _picture(pixels, text)


def _picture(pixels: np.ndarray, text: str = "") -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    source = base64.b64encode(file.getvalue()).decode()
    image = (
        f'<img alt="{escape(text or "image or class map")}" src="data:image/png;base64,{source}">'
    )
    return f"<figure>{image}<figcaption>{escape(text)}</figcaption></figure>"
