"""Label maps of any layout that a split lists, published layouts as a table, and joined sets."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import normalize

import cv2
import numpy as np
import torch
from annotated_types import MinLen
from mmseg.utils import ade_classes, ade_palette, voc_classes, voc_palette
from torchvision.io import decode_image

from fedseg.datasets.images import read_bytes
from fedseg.datasets.scenes import COLORS, TO_CITYSCAPES
from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.errors import ConfigError, DataError
from fedseg.files import digest, read_json
from fedseg.names import NAME_RULE, is_name
from fedseg.registry import DATASETS, build, find_class


@dataclass(frozen=True)
class Layout:
    """Files of a data set below its root, what their ids mean, and how its clients are made.

    In ``images`` and ``labels`` ``*`` matches within a folder and ``**/`` any folders; what the
    wildcards of an image match, those of its label match too.
    """

    images: Sequence[str]
    labels: Sequence[str]
    classes: Sequence[str] = tuple(COLORS)
    palette: Sequence[Sequence[int]] = tuple(COLORS.values())
    ids: str | None = None  # of TO_CITYSCAPES
    names: Sequence[str] = ()  # of the ids, where labels are polygons
    domain: str | None = None  # template, see find_domain
    first_channel: bool = False  # of 16 bits, as SYNTHIA's
    reduce_zero_label: bool = False
    test: Sequence[str] = ()  # as in fedseg prepare
    clients: int | None = None  # None: the domains
    partition: str | None = None
    alpha: float = 1.0
    counts: Mapping[str, int] = field(default_factory=dict)  # glob of images -> labelled ones


WILDCARDS = {"**/": "((?:.+/)?)", "*": "([^/]*)", "?": "([^/])"}
DOMAIN = "{domain}"
LAYOUTS = {
    name: Layout(**entry)
    for name, entry in read_json(Path(__file__).with_name("layouts.json")).items()
}
for _name, _classes, _palette in (
    ("voc", voc_classes(), voc_palette()),
    ("ade20k", ade_classes(), ade_palette()),
):
    LAYOUTS[_name] = replace(LAYOUTS[_name], classes=tuple(_classes), palette=_palette)


def ids_of(ids: str | Sequence[int] | None) -> dict[int, int] | None:
    """Raw id -> class from the name of a map to Cityscapes or the class of each raw id from 0."""
    if ids is None or isinstance(ids, str):
        return TO_CITYSCAPES[ids] if ids else None
    return {IGNORE: IGNORE, **dict(enumerate(ids))}


def check_names(ids: str | Sequence[int] | None, labels: Iterable[str]) -> None:
    """Raise ConfigError if a named map is for other ids than Cityscapes' file names say."""
    for label in labels if isinstance(ids, str) else ():
        named = re.search("_label(Train)?Ids[.]", label)
        if named and bool(named[1]) != (ids == "train_ids"):
            fault = f"is {ids!r}, but {label} is named as a map of {'train' if named[1] else 'raw'}"
            raise ConfigError(f"dataset.ids: {fault} ids: give another map, or files of one kind")


def glob_expression(glob: str) -> str:
    """The regular expression of a glob of paths, with a group for each wildcard.

    ``*`` matches within a folder, ``**/`` any folders, ``?`` a character. Brackets are themselves.
    """
    parts = re.split(r"(\*\*/|\*|\?)", normalize("NFC", glob))
    return "".join(WILDCARDS.get(part, re.escape(part)) for part in parts)


def find_domain(template: str | None, image: str) -> str:
    """The domain of an image by its path; ``all`` without a template.

    Args:
        template: the path below the root with ``{domain}`` once, for a folder's name or a part of
            it, and with the wildcards of :func:`glob_expression`.
        image: the path of the image below the root.

    Raises:
        ConfigError: the template does not match the path, or the domain cannot be a name.
    """
    if template is None:
        return "all"
    if template.count(DOMAIN) != 1:
        raise ConfigError(
            f"dataset.domain: must have {DOMAIN} once, as in '**/{DOMAIN}/*', not {template!r}"
        )
    before, after = (glob_expression(part) for part in template.split(DOMAIN))
    match = re.fullmatch(f"{before}(?P<domain>[^/]+){after}", normalize("NFC", image))
    if match is None:
        raise ConfigError(
            f"dataset.domain: {template!r} does not match {image!r}: write the path below the root "
            f"with {DOMAIN} for the domain, * within a folder and **/ for any folders"
        )
    domain = match["domain"]
    if not is_name(domain):
        raise ConfigError(f"dataset.domain: must have {NAME_RULE}, not {domain!r} of {image!r}")
    return domain


def read_first_channel(path: str) -> np.ndarray:
    """Read SYNTHIA's label map, a PNG of 16 bits and three channels: uint8 [H, W] of the first."""
    try:
        ids = decode_image(torch.frombuffer(bytearray(read_bytes(path)), dtype=torch.uint8))[0]
    except RuntimeError as error:
        raise DataError(f"{path}: cannot be decoded ({error}): extract the file again.") from error
    if ids.dtype != torch.uint16 or ids.numpy().max() > 255:
        raise DataError(f"{path}: must have ids 0 to 255 in 16 bits: extract the file again.")
    return ids.numpy().astype(np.uint8)


def color_of(index: int) -> list[int]:
    """[r, g, b] of a class in Pascal VOC's color map, which labelme uses too."""
    return [
        sum((index >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(8))
        for channel in range(3)
    ]


@DATASETS.register_module()
class ListedDataset(SegmentationDataset):
    """Images and label maps of any layout: ``fedseg prepare segmentation`` lists them in a split.

    Other arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Args:
        layout: the published data set whose classes, ids and domains these are.
        classes: names, in the order of their ids; without ``layout``.
        palette: [r, g, b] by class; default: Pascal VOC's color map.
        ids: the class of each raw id from 0, 255 to ignore; or the name of a map to the 19 classes
            of Cityscapes, see :class:`~fedseg.datasets.mmsegmentation.MMSegDataset`.
        domain: template of an image's path below ``data_root`` that has its domain as
            ``{domain}``, see :func:`find_domain`. None: all images are of the domain ``all``.
        domains: only images of these domains, a name or a list; None takes all.
        reduce_zero_label: id 0 is ignored, and classes begin at 1.
    """

    first_channel = False

    def __init__(
        self,
        data_root: str,
        split: str,
        layout: Literal[tuple(LAYOUTS)] | None = None,
        classes: Sequence[str] = (),
        palette: Sequence[Sequence[int]] = (),
        ids: Literal[tuple(TO_CITYSCAPES)] | Sequence[int] | None = None,
        domain: str | None = None,
        domains: str | Sequence[str] | None = None,
        reduce_zero_label: bool = False,
        **kwargs: Any,
    ) -> None:
        if layout is not None:
            defined_by_layout = {
                "classes": classes,
                "palette": palette,
                "ids": ids,
                "domain": domain,
                "reduce_zero_label": reduce_zero_label,
            }
            for field, value in defined_by_layout.items():
                if value:
                    raise ConfigError(f"dataset.{field}: {layout} has its own: leave it out")
            of = LAYOUTS[layout]
            classes, palette, ids, domain = of.classes, of.palette, of.ids, of.domain
            reduce_zero_label, self.first_channel = of.reduce_zero_label, of.first_channel
        elif isinstance(ids, str) and not classes:
            classes, palette = tuple(COLORS), tuple(COLORS.values())
        if not classes:
            raise ConfigError("dataset.classes: is empty: name the classes, or a layout")
        self.classes = tuple(classes)
        self.palette = [*map(list, palette or map(color_of, range(256)))][: len(classes)]
        self.domain, self.reduce_zero_label = domain, reduce_zero_label
        if ids is not None:
            self.label_ids = ids_of(ids)
        self.wanted = domains
        super().__init__(data_root, split, **kwargs)
        check_names(ids, self.listed.values())

    def read_label(self, path: str) -> np.ndarray:
        return read_first_channel(path) if self.first_channel else super().read_label(path)

    def label_of(self, image: str) -> str:
        return self.listed[image]

    def domain_of(self, image: str) -> str:
        return find_domain(self.domain, image)

    def _read_split(self, wanted: str | Sequence[str] | None) -> None:
        super()._read_split(wanted)
        self._keep_domains(self.wanted)


@DATASETS.register_module()
class JoinedDataset(SegmentationDataset):
    """Several segmentation data sets as one; a class is what its name says in each of them.

    A user is ``<part>/<user>``, a domain the part. What a part does not label is ignored in its
    images. Other arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Args:
        parts: name -> config of a data set of this suite, without pipeline and style.
        classes: names; default: those of the first part. A part may lack some of them.
        data_root: the folder that the roots of the parts are relative to.
    """

    tool = ""  # those of the parts

    def __init__(
        self,
        parts: Annotated[Mapping[str, Mapping[str, Any]], MinLen(1)],
        classes: Sequence[str] = (),
        data_root: str = "",
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        mirror: bool = False,
        test_mode: bool = False,
    ) -> None:
        self.data_root = data_root
        self.joined = {name: self._build(name, part) for name, part in parts.items()}
        self.check_files()  # of the parts, which may take other label maps than their splits name
        first = next(iter(self.joined.values()))
        self.classes = tuple(classes or first.classes)
        palettes = [zip(p.classes, p.palette, strict=True) for p in self.joined.values()]
        colors = {name: color for pairs in reversed(palettes) for name, color in pairs}
        self.palette = [colors.get(name, color_of(i)) for i, name in enumerate(self.classes)]
        self.users, self.domains, self.files, self.positions, self._places = [], [], [], [], []
        for name, part in self.joined.items():
            if unknown := [of for of in part.classes if of not in self.classes]:
                fault = f"its classes {', '.join(unknown[:5])} are not in dataset.classes"
                fix = "add them, or set the part's ids to leave them out"
                raise ConfigError(f"dataset.parts.{name}: {fault}: {fix}")
            table = np.full(256, IGNORE, np.uint8)
            table[: len(part.classes)] = [self.classes.index(of) for of in part.classes]
            self.users += [f"{name}/{user}" for user in part.users]
            self.domains += [name] * len(part)
            self.files += part.files
            self.positions += part.positions
            self._places += [(part, at, table) for at in range(len(part))]
        self.split_checksum = digest([[n, p.split_checksum] for n, p in self.joined.items()])
        self._set_up(pipeline, style, mirror, test_mode)

    def _build(self, name: str, part: Mapping[str, Any]) -> SegmentationDataset:
        """A part below the common root, whose files are not looked at yet."""
        where, part = f"dataset.parts.{name}", {**part}
        kind = find_class(DATASETS, part, where, SegmentationDataset)
        part["type"] = type(kind.__name__, (kind,), {"check_files": lambda self: None})
        source = part
        if isinstance(part.get("source"), Mapping):  # of MMSegDataset
            source = part["source"] = {**part["source"]}
        source["data_root"] = os.path.join(self.data_root, source.get("data_root") or "")
        injected = {"pipeline": (), "style": None, "mirror": False, "test_mode": False}
        built = build(DATASETS, part, where, injected)
        built.__class__ = kind  # which can be pickled
        return built

    def check_files(self) -> None:
        """Raise DataError if an image or label of a part is not there."""
        for part in self.joined.values():
            part.check_files()

    def class_pixels(self) -> np.ndarray:
        counts = np.zeros((self.unmirrored, len(self.classes)), np.int64)
        ends = np.cumsum([len(part) for part in self.joined.values()])
        for part, end in zip(self.joined.values(), ends, strict=True):
            columns = [self.classes.index(name) for name in part.classes]
            counts[end - len(part) : end, columns] = part.class_pixels()
        return counts[np.arange(len(self)) % self.unmirrored]

    def _train_ids_of(self, index: int) -> np.ndarray:
        part, at, table = self._places[index % self.unmirrored]
        return cv2.LUT(part._train_ids_of(at), table)

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part, at, table = self._places[index % self.unmirrored]
        image, label = part.read(at)
        return image, cv2.LUT(label, table)
