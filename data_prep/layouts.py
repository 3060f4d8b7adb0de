"""Where images and label maps are below their root, and what the ids mean."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedseg.datasets import SegmentationDataset
from fedseg.datasets.images import read_label
from fedseg.datasets.listed import color_of
from fedseg.datasets.segmentation import ALL, IGNORE, UNKNOWN, class_of_ids
from fedseg.datasets.templates import fields_of, names_of
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_json
from fedseg.names import NAME_RULE, is_name
from fedseg.partition import check_path

from .classes import read_classes
from .importers import is_coco


@dataclass(frozen=True)
class Layout:
    """Files of a data set below its root, and what their ids mean."""

    images: str  # template, see fedseg.datasets.templates
    labels: str
    classes: Sequence[str]
    palette: Sequence[Sequence[int]]  # [r, g, b] by class
    class_of: np.ndarray  # class of each raw id, see class_of_ids
    read_label: Callable[[str], np.ndarray] = read_label
    published: Mapping[str, int] = field(default_factory=dict)  # {split} -> labelled images

    @property
    def has_domains(self) -> bool:
        """True if the paths of images name their domains."""
        return "domain" in names_of(self.images)

    def domain_of(self, image: str) -> str:
        """Read the domain of an image from its path."""
        domain = fields_of(self.images, image).get("domain", ALL)
        if not is_name(domain):
            raise DataError(f"{image}: its domain must have {NAME_RULE}, not {domain!r}.")
        return domain

    def split_of(self, image: str) -> str:
        """Read the published split of an image from its path, "" where there is none."""
        return fields_of(self.images, image).get("split", "")


def own_layout(root: Path, images: str | None, labels: str | None, classes: Path | None) -> Layout:
    """Make the layout of a user's folder.

    Args:
        root: the folder.
        images: template of the images.
        labels: template of the label maps, with fields of ``images``.
        classes: file of the classes, here or below the root.
    """
    _refuse_coco(root, labels)
    if not images or not labels:
        raise ConfigError(
            "--images, --labels: give templates of paths below the root, such as --images "
            "'JPEGImages/{name}.jpg' --labels 'SegmentationClass/{name}.png'"
        )
    for option, template in {"--images": images, "--labels": labels}.items():
        fault = check_path(template)
        if fault:
            raise ConfigError(f"{option}: {template!r} {fault}: write it relative to {root}.")
    if not names_of(labels):
        raise ConfigError(f"--labels: must have fields of --images, not {labels!r}: add {{name}}.")
    for name in sorted(names_of(labels) - names_of(images)):
        raise ConfigError(f"--labels: {{{name}}} is no field of --images: add it there.")
    if labels.endswith(".json"):
        raise ConfigError(f"--labels: must be PNG files, not {labels!r}: give --from labelme.")
    if classes is None:
        raise ConfigError("--classes: is missing: a file with the names of the classes, in order")
    names, colors = read_classes(classes if classes.exists() else root / classes)
    class_of = np.full(256, UNKNOWN)
    class_of[: len(names)] = range(len(names))
    class_of[IGNORE] = IGNORE
    palette = colors or [color_of(index) for index in range(len(names))]
    return Layout(images=images, labels=labels, classes=names, palette=palette, class_of=class_of)


def _refuse_coco(root: Path, labels: str | None) -> None:
    """Raise ConfigError where the label maps are one file of COCO."""
    if labels is None or names_of(labels):
        return
    for file in (Path(labels), root / labels):
        if file.is_file() and is_coco(read_json(file)):
            raise ConfigError(
                f"--labels: {file} is a file of COCO: give --from coco --labels {file} --images "
                "FOLDER, without --classes."
            )


def published_layout(kind: type[SegmentationDataset]) -> Layout:
    """Take the layout of a published data set from its class."""
    return Layout(
        images=kind.image_path,
        labels=kind.label_path,
        classes=kind.classes,
        palette=kind.palette,
        class_of=class_of_ids(kind),
        read_label=kind.read_label,
        published=kind.published,
    )
