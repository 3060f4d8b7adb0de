"""Data sets of MMSegmentation by name: its classes list and describe, this suite reads pixels."""

import inspect
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from typing import Any

with redirect_stdout(None):  # it prints which optional package is not there
    from mmseg.datasets import BaseSegDataset

from fedseg.datasets.file_lists import check_exist
from fedseg.datasets.photos import rows_checksum
from fedseg.datasets.segmentation import ALL, IGNORE, SegmentationDataset
from fedseg.datasets.templates import fields_of
from fedseg.errors import ConfigError, DataError
from fedseg.names import is_name
from fedseg.registry import DATASETS, build, find_class

# what the source is given, because this suite does it or because paths must be local
GIVEN = {"pipeline": (), "lazy_init": False, "serialize_data": False, "backend_args": None}


@DATASETS.register_module()
class MMSegDataset(SegmentationDataset):
    """Images and label maps that a data set of MMSegmentation lists, read by this suite.

    Layout, suffixes, classes, palette, ``reduce_zero_label`` and the choice of classes are the
    source's. A user is a domain. Other arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Args:
        source: the data set of MMSegmentation, for example ``dict(type="ADE20KDataset",
            data_root="data/ade", data_prefix=dict(img_path="images/training",
            seg_map_path="annotations/training"))``.
        domain: template of an image's path below ``data_root`` with its ``{domain}``, see
            :mod:`fedseg.datasets.templates`. None: all images are of the domain ``all``.
        domains: only images of these domains, a name or a list; None takes all.
        ids: the class of each raw id from 0, 255 to ignore; None: as the source says.
    """

    tool = ""  # no command makes its folder

    def __init__(
        self,
        source: Mapping[str, Any],
        domain: str | None = None,
        domains: str | Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        mirror: bool = False,
        test_mode: bool = False,
    ) -> None:
        if "label_map" in (source.get("metainfo") or ()):  # which the library would leave out
            raise ConfigError("dataset.source.metainfo: has a label_map: set dataset.ids instead")
        listed = _build_source(source)
        self.classes, self.palette = listed.metainfo.get("classes"), listed.metainfo["palette"]
        if not self.classes or isinstance(self.classes, str):  # a file that is not there
            raise ConfigError("dataset.source.metainfo: has no classes: give dict(classes=[...])")
        self.classes = tuple(self.classes)
        if ids is None:
            ids = _ids_of(listed)
        elif listed.reduce_zero_label:
            raise ConfigError("dataset.ids: lists ids of files: set source.reduce_zero_label=False")
        for label in ids:
            if label not in (IGNORE, *range(len(self.classes))):
                must = f"must be classes 0 to {len(self.classes) - 1}, or 255 to ignore"
                raise ConfigError(f"dataset.ids: {must}, not {label!r}.")
        self.num_ids = len(ids)
        self.label_ids = {
            raw: self.classes[label] for raw, label in enumerate(ids) if label != IGNORE
        }
        infos = [listed.get_data_info(index) for index in range(len(listed))]
        places = [(info["img_path"], info.get("seg_map_path", "")) for info in infos]
        files = [tuple(path.replace("\ufeff", "") for path in pair) for pair in places]
        # without blank lines of an ann_file
        files = [pair for pair in files if os.path.basename(pair[0]) != listed.img_suffix]
        if not files or not all(label for _, label in files):
            fix = "set its data_prefix, img_suffix (the ending of image files) or ann_file"
            fault = f"{source['type']} lists no images with label maps"
            raise ConfigError(f"dataset.source: {fault}: {fix}")
        if twice := [image for (image, _), times in Counter(files).items() if times > 1]:
            raise DataError(f"{twice[0]}: is listed twice: correct dataset.source.ann_file")
        folders = {os.path.dirname(os.path.abspath(path)) for pair in files for path in pair}
        self.data_root = source.get("data_root") or os.path.commonpath(folders)
        below = [tuple(os.path.relpath(path, self.data_root) for path in pair) for pair in files]
        self.split_checksum = rows_checksum(below)
        self.files, self.domains = files, [_find_domain(domain, image) for image, _ in below]
        self.users = self.domains
        counters = {name: count() for name in self.domains}
        self.positions = [next(counters[name]) for name in self.domains]
        self._keep_domains(domains)
        self._set_up(pipeline, style, mirror, test_mode)

    def check_files(self) -> None:
        """Raise DataError if an image or label that the source lists is not there."""
        paths = [path for pair in self.files for path in pair]
        root = os.path.commonpath([*map(os.path.abspath, paths), os.path.abspath(self.data_root)])
        check_exist(paths, root, "complete the data set, or set dataset.source")


def is_source(cls: Any) -> bool:
    """True for a data set of the library that :class:`MMSegDataset` may list images by."""
    of_library = getattr(cls, "__module__", "").startswith("mmseg.datasets.")
    return of_library and inspect.isclass(cls) and issubclass(cls, BaseSegDataset) and _lists(cls)


def _lists(cls: type[BaseSegDataset]) -> bool:
    """False for a class that reads its list in another way: some unpickle files or use networks."""
    return cls.load_data_list is BaseSegDataset.load_data_list


def _build_source(source: Mapping[str, Any]) -> BaseSegDataset:
    field = "dataset.source"
    if "://" in str(source):
        raise ConfigError(f"{field}: has an address: images are read from local folders")
    root, prefix = source.get("data_root") or "", source.get("data_prefix")
    places = {"data_root": "", "ann_file": source.get("ann_file")}
    if isinstance(prefix, Mapping):
        if "img_path" not in prefix:
            raise ConfigError(f"{field}.data_prefix: must have img_path and seg_map_path")
        places |= {f"data_prefix.{key}": place for key, place in prefix.items()}
    for key, place in places.items():  # of which the library's messages say nothing
        path = os.path.join(root, place) if isinstance(place, str) else ""
        if path and not os.path.exists(path):
            raise DataError(f"{path.rstrip('/')}: does not exist: set {field}.{key}")
    library = f"mmseg.{source.get('type')}"
    if source.get("type") in DATASETS.modules and DATASETS.get(library) is not None:
        source = {**source, "type": library}  # not the suite's own of that name
    kind = find_class(DATASETS, source, field)
    if inspect.isclass(kind) and issubclass(kind, BaseSegDataset) and not _lists(kind):
        fix = "use a class that lists folders of images and label maps, such as BaseSegDataset"
        raise ConfigError(f"{field}.type: {kind.__name__} has its own way of listing images: {fix}")
    path = os.path.join(root, str(places["ann_file"] or ""))
    try:
        if os.path.isfile(path):
            Path(path).read_bytes().decode()
        return build(DATASETS, source, field, GIVEN, BaseSegDataset)
    except UnicodeError as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({error})") from error
    except OSError as error:
        raise DataError(f"{field}: {source['type']} cannot list its images ({error})") from error


def _ids_of(listed: BaseSegDataset) -> list[int]:
    """The class of every raw id, 255 = ignored, as the library's ``LoadAnnotations`` maps them."""
    count = len(listed.metainfo["classes"])
    chosen = listed.label_map or {index: index for index in range(count)}
    ids = [IGNORE] if listed.reduce_zero_label else []
    for index in range(max(chosen) + 1):
        label = chosen.get(index, IGNORE)
        ids.append(IGNORE if label in (-1, listed.ignore_index) else label)
    return ids


def _find_domain(template: str | None, image: str) -> str:
    """The domain of an image by its path; ``all`` without a template."""
    if template is None:
        return ALL
    domain = (fields_of(template, image) or {}).get("domain")
    if domain is None or not is_name(domain):
        must = "must be a template of the images' paths with {domain}"
        raise ConfigError(f"dataset.domain: {must}, not {template!r}, which {image!r} is not.")
    return domain
