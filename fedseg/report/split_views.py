"""The samples of each client, read from a config or from a split's files.

Nothing is trained and no model is built. For segmentation, images need not even be on disk: the
domains follow from the names in the split files.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from fedseg.config.check import complete_config
from fedseg.config.layers import errors_name_their_source
from fedseg.datasets import CamVidDataset, CityscapesDataset, IDDADataset
from fedseg.datasets.arrays import INDEX, ImageArrays, StoredImages, shared_images
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.templates import fields_of, fill
from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.files import read_json
from fedseg.loaders.partitioned import build_dataset
from fedseg.partition import FixedPartition, NaturalPartition, Split, divide, read_split
from fedseg.partition.natural import NOTE
from fedseg.partition.split_files import SplitFile
from fedseg.registry import DATASETS, build
from fedseg.report.partition_view import View, partition_statistics
from fedseg.runner.experiment import load_config

FEDDRIVE = (IDDADataset, CityscapesDataset, CamVidDataset)
MOST_SAMPLES = 20_000_000  # a larger index is a mistake; arrays as long would be made


def read_views(
    paths: Iterable[str | Path],
    options: Sequence[str] = (),
    images: bool = False,
    methods: Sequence[str] = (),
) -> list[View]:
    """Read configs (``.py``), split files (``.json``) and folders of split files.

    Overrides ``KEY=VALUE`` and methods are for each config; ``images``: label maps will be read,
    so that their files must be there.
    """
    paths = [Path(path) for path in paths]
    if options and not any(path.suffix == ".py" for path in paths):
        raise ConfigError("--cfg-options: applies to configs only: name a config")
    views = []
    for path in paths:
        if path.name.endswith(NOTE):
            continue  # says how the split beside it was made: `splits/*.json` names both
        if path.suffix == ".py":
            config = load_config(path, methods=methods, options=options)
            with errors_name_their_source(config):
                views.append(_read_config(path, complete_config(config), images))
        elif path.is_dir():
            views.append(_read_folder(path))
        else:
            views.append(_read_file(path))
    if not views:
        raise DataError("no split is named: only notes about splits")
    return _rename(views)


def _rename(views: Sequence[View]) -> list[View]:
    """Give each a name of its own, for its files: the second one is ``<name>_2``."""
    named: dict[str, View] = {}
    for view in views:
        stem = re.sub(r"[^\w.-]+", "_", view.name) or "split"
        names = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        name = next(name for name in names if name not in named)
        named[name] = replace(view, name=name)
    return list(named.values())


def _read_config(path: Path, config: Config, images: bool) -> View:
    recipe = _get(config.train_dataloader, "partition", "train_dataloader")
    dataset = _build_dataset(config.train_dataloader, "train_dataloader", images)
    clients, held_out = divide(recipe, dataset)
    tests, notes = {}, []
    for name, entry in (config.get("val_dataloader") or {}).items():
        if entry is None:  # a test set that the config leaves out
            continue
        if entry.get("held_out"):
            tests[name] = _Part(dataset, np.concatenate([*held_out.values()]))
            continue
        try:
            tests[name] = _build_dataset(entry, f"val_dataloader.{name}", False)
        except MissingDataError as error:
            if not entry.get("optional"):
                raise
            notes.append(f"{path.stem}: test set {name!r} is not there ({error})")
            continue
        if shared := _count_shared(dataset, tests[name]):
            notes.append(f"{path.stem}: {shared} images of test set {name!r} are training images")
    options = dict(recipe) if isinstance(recipe, Mapping) else {"type": type(recipe)}
    kind = options.pop("type", None)
    words = [f"{path.stem}: {getattr(kind, '__name__', kind)}"]
    words += [f"{k} {v}" for k, v in options.items() if not isinstance(v, Mapping)]
    title = ", ".join(words)
    view = _make_view(path.stem, title, clients, dataset, tests, notes)
    unused = view.statistics.unused - sum(map(len, held_out.values()))
    return replace(view, statistics=replace(view.statistics, unused=unused))


def _count_shared(train: Any, test: Any) -> int:
    """Count the test images that are training images: by file, or by content if in memory."""
    if isinstance(train, ImageArrays) and isinstance(test, ImageArrays):
        return len(shared_images(train.images, test.images))
    if isinstance(train, SegmentationDataset) and isinstance(test, SegmentationDataset):
        trained = {image for image, _ in train.files}
        return sum(image in trained for image, _ in test.files)
    return 0


def _get(loader: Any, key: str, field: str) -> Any:
    if not isinstance(loader, Mapping) or loader.get(key) is None:
        raise ConfigError(f"{field}.{key}: is missing")
    return loader[key]


def _build_dataset(loader: Any, field: str, images: bool) -> Any:
    """A loader's data set; one that is listed by a split file needs no images."""
    config = _get(loader, "dataset", field)
    if isinstance(config, Mapping) and not images:
        kind = config.get("type")
        kind = DATASETS.get(kind) if isinstance(kind, str) else kind
        if inspect.isclass(kind) and issubclass(kind, SegmentationDataset):
            config = {k: v for k, v in config.items() if k not in ("style", "pipeline")}
    if images:
        return build_dataset(config, f"{field}.dataset")
    return build(DATASETS, config, f"{field}.dataset")


def _make_view(
    name: str,
    title: str,
    clients: Mapping[str, np.ndarray],
    dataset: Any,
    tests: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> View:
    """A view of data sets, by class if they have class ids, else by domain if they have these."""
    kind, labels = _read_labels(dataset)
    labels_of = {test: _read_labels(of) for test, of in tests.items()}
    alike = {test: of for test, (of_kind, of) in labels_of.items() if kind and of_kind == kind}
    rows: tuple[str, ...] = ()
    if kind == "class":
        most = max(int(ids.max()) for ids in (labels, *alike.values()))
        names = (getattr(dataset, "metainfo", None) or {}).get("classes")
        rows = tuple(map(str, range(most + 1))) if names is None else tuple(names)
        if most >= len(rows):
            raise DataError(f"{title}: class id {most} occurs, but there are {len(rows)} classes")
    elif kind == "domain":
        domains = np.unique(np.concatenate([labels, *alike.values()]))
        rows, labels = tuple(domains.tolist()), np.searchsorted(domains, labels)
        alike = {test: np.searchsorted(domains, names) for test, names in alike.items()}
    statistics = partition_statistics(clients, labels, max(len(rows), 1))
    sizes = {test: len(of) for test, of in tests.items()}
    counts = {test: np.bincount(ids, minlength=len(rows)) for test, ids in alike.items()}
    maps = dataset if isinstance(dataset, SegmentationDataset) else None
    return View(name, title, clients, statistics, kind, rows, sizes, counts, tuple(notes), maps)


def _read_labels(dataset: Any) -> tuple[str | None, np.ndarray]:
    """One label for each sample and its kind: class ids, names of domains, or zeros."""
    labels = np.asarray(getattr(dataset, "labels", None))
    one_each = labels.shape == (len(dataset),) and np.issubdtype(labels.dtype, np.integer)
    if one_each and labels.size and labels.min() >= 0:
        return "class", labels
    if getattr(dataset, "domains", None) is not None:
        return "domain", np.asarray(dataset.domains, str)
    return None, np.zeros(len(dataset), np.int64)


def _read_file(path: Path) -> View:
    fix = "name a config, a split file or a folder of split files"
    if not path.exists():
        raise DataError(f"{path}: does not exist: {fix}")
    content = read_json(path, fix)
    if isinstance(content, dict) and SplitFile.model_fields.keys() <= content.keys():
        return _read_folder(path.parent)  # all files of a folder are one split
    return _read_indices(path)


def _read_indices(path: Path) -> View:
    """Clients by indices, with the labels of the prepared folder that the file lies in."""
    partition = FixedPartition(file=path)
    root = path.parent.parent
    if not (root / INDEX).is_file():
        indices = [i for samples in partition.clients.values() for i in samples]
        samples = 1 + max(indices, default=0)  # at least: what nobody holds is not known
        if samples > MOST_SAMPLES:
            raise DataError(f"{path}: index {samples - 1:,} is larger than any data set")
        note = f"{path}: the classes are not known: {root} is no prepared folder"
        listed = range(samples)
        return _make_view(path.stem, path.stem, partition(listed), listed, {}, [note])
    train, test = StoredImages(root, "train"), StoredImages(root, "test")
    return _make_view(path.stem, path.stem, partition(train), train, {"test": test})


def _read_folder(folder: Path) -> View:
    """A folder of FedDrive's split files, or one with such folders ``train`` and ``test``."""
    if (folder / "train").is_dir():
        folder = folder / "train"
    train = read_split(folder)
    beside = folder.parent / "test"
    listed = {}
    if folder.name == "train" and any(beside.glob("*.json")):
        listed = {user: Split({user: pairs}) for user, pairs in read_split(beside).users.items()}
    name = "_".join(folder.parts[-3:-1] if folder.name == "train" else folder.parts[-2:])
    images = _find_layout([train, *listed.values()])
    notes = [] if images else [f"{folder}: its paths are of no known data set: no domains"]
    samples, title = _Listed(train, images), "/".join(folder.parts[-3:])
    tests = {test: _Listed(split, images) for test, split in listed.items()}
    return _make_view(name, title, NaturalPartition()(samples), samples, tests, notes)


class _Part:
    """Samples of a data set that are tested, with their labels and domains."""

    def __init__(self, dataset: Any, samples: np.ndarray) -> None:
        kind, labels = _read_labels(dataset)
        self.samples = samples
        self.labels = labels[samples] if kind == "class" else None
        self.domains = labels[samples] if kind == "domain" else None

    def __len__(self) -> int:
        return len(self.samples)


class _Listed:
    """Samples of split files, known by their paths."""

    def __init__(self, split: Split, images: str | None) -> None:
        self.users = [user for user, samples in split.users.items() for _ in samples]
        self.domains = None
        if images is not None:
            self.domains = [fields_of(images, image)["domain"] for image, _ in split.samples]

    def __len__(self) -> int:
        return len(self.users)


def _find_layout(splits: Sequence[Split]) -> str | None:
    """Find the template of image paths that the splits are written by; None if it is unknown."""
    samples = [sample for split in splits for sample in split.samples]
    for kind in FEDDRIVE:
        if all(_fits(kind, *sample) for sample in samples):
            return kind.image_path
    return None


def _fits(kind: type[SegmentationDataset], image: str, label: str) -> bool:
    fields = fields_of(kind.image_path, image)
    return fields is not None and fill(kind.label_path, fields) == label


def pixel_counts(view: View) -> np.ndarray:
    """Pixels of every class that each client holds, int64 [clients, classes]; reads label maps."""
    dataset = view.dataset
    if dataset is None:
        raise ConfigError(
            f"--pixels: {view.name} has no label maps that could be read: it is for configs of "
            "segmentation data sets"
        )
    counts = dataset.class_pixels()
    for sample in range(len(counts)):
        known = dataset.known_classes(sample)
        if known is not None:
            counts[sample] *= np.isin(np.arange(counts.shape[1]), [*known])
    return np.stack([counts[samples].sum(axis=0) for samples in view.clients.values()])
