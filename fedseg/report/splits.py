"""Which client has how many samples of which class, read from a config or a prepared split.

Nothing is trained and no model is built. For segmentation, images need not even be on disk: the
domains follow from the names in the split files.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mmengine.config import Config

from fedseg.config.check import complete_config
from fedseg.config.layers import errors_name_their_source
from fedseg.datasets import CamVidDataset, CityscapesDataset, IDDADataset
from fedseg.datasets.arrays import INDEX, ImageArrays, StoredImages, shared_images
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.templates import fields_of, fill
from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.loaders.partitioned import build_dataset
from fedseg.partition import FixedPartition, Split, divide, read_split
from fedseg.partition.natural import NOTE
from fedseg.registry import DATASETS, build
from fedseg.runner.experiment import load_config

CLASSES, DOMAINS = "classes", "domains"
FEDDRIVE = (IDDADataset, CityscapesDataset, CamVidDataset)
FIX = (
    "name a config, a split file in a prepared folder, or the folder of a prepared split that has "
    "a folder train"
)


@dataclass(frozen=True)
class SplitView:
    """A split to be looked at.

    Attributes:
        name: short, its column in tables.
        kind: ``"classes"`` or ``"domains"``: what the columns of ``counts`` are.
        sizes: number of samples of each client.
        counts: of each client (rows) in each class or domain (columns).
        unit: ``"samples"`` or ``"pixels"``: what is counted there.
        tests: the same of the test sets that have such labels.
        test_sizes: number of samples of each test set.
        unused: number of samples that no client holds and no test set takes.
        distance: mean over the clients of the total-variation distance 1/2 sum_c |p_kc - p_c|
            between the client's distribution and that of all samples, from 0 to nearly 1.
        notes: what could not be looked at, in words.
    """

    name: str
    kind: str
    sizes: pd.Series
    counts: pd.DataFrame
    tests: pd.DataFrame
    test_sizes: Mapping[str, int]
    unused: int
    distance: float
    unit: str = "samples"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Labels:
    """One label for each sample.

    Attributes:
        kind: ``"classes"`` or ``"domains"``.
        ids: of the samples, int64.
        names: of the ids.
    """

    kind: str
    ids: np.ndarray
    names: Sequence[str]

    def count(self, samples: np.ndarray) -> np.ndarray:
        """Count the samples of each id, int64 [ids]."""
        return np.bincount(self.ids[samples], minlength=len(self.names))

    def count_all(self) -> np.ndarray:
        """Count all samples of each id, int64 [ids]."""
        return np.bincount(self.ids, minlength=len(self.names))


def read_split_views(
    paths: Iterable[str | Path],
    options: Sequence[str] = (),
    methods: Sequence[str] = (),
    pixels: bool = False,
) -> list[SplitView]:
    """Read configs (``.py``) and prepared splits.

    Args:
        paths: of configs, split files in a prepared folder, or folders with ``train``.
        options: overrides ``KEY=VALUE`` of each config.
        methods: merged over each config.
        pixels: count the pixels of each class in the clients' label maps.
    """
    files = [Path(path) for path in paths]
    files = [path for path in files if not path.name.endswith(NOTE)]  # says how a split was made
    if not files:
        raise DataError("no split is named: only notes about splits")
    if any(path.suffix != ".py" for path in files):
        if options or methods:
            raise ConfigError("--cfg-options, --with: apply to configs only")
        if pixels:
            raise ConfigError("--pixels: is for configs of segmentation data sets")
    views: dict[str, SplitView] = {}
    for path in files:
        name = _unique_name(path, views)
        if path.suffix == ".py":
            config = load_config(path, methods=methods, options=options)
            with errors_name_their_source(config):
                views[name] = _read_config(name, complete_config(config), pixels)
        elif path.is_dir():
            views[name] = _read_folder(name, path)
        else:
            views[name] = _read_file(name, path)
    return list(views.values())


def _unique_name(path: Path, names: Iterable[str]) -> str:
    """Name a split by its file; the second one is ``<name>_2``."""
    stem = path.stem
    if path.is_dir():
        stem = "_".join(path.resolve().parts[-2:])
    name = stem
    number = 1
    while name in names:
        number += 1
        name = f"{stem}_{number}"
    return name


def count_split(
    name: str,
    clients: Mapping[str, np.ndarray],
    labels: Labels,
    tests: Mapping[str, Labels] | None = None,
    notes: Sequence[str] = (),
) -> SplitView:
    """Count the samples of each client in each class or domain.

    Args:
        name: of the split.
        clients: client id -> indices of its samples.
        labels: of all samples.
        tests: of the test sets; those of another kind have no row in ``SplitView.tests``.
        notes: what could not be looked at.
    """
    tests = tests or {}
    alike = {test: other for test, other in tests.items() if other.kind == labels.kind}
    counts = pd.DataFrame(
        [labels.count(samples) for samples in clients.values()], list(clients), labels.names
    )
    rows = {test: pd.Series(other.count_all(), other.names) for test, other in alike.items()}
    test_counts = pd.DataFrame(rows).T
    columns = counts.columns.union(test_counts.columns, sort=labels.kind == DOMAINS)
    sizes = counts.sum(axis=1)
    return SplitView(
        name=name,
        kind=labels.kind,
        sizes=sizes,
        counts=counts.reindex(columns=columns, fill_value=0),
        tests=test_counts.reindex(columns=columns).fillna(0).astype(int),
        test_sizes={test: len(other.ids) for test, other in tests.items()},
        unused=len(labels.ids) - int(sizes.sum()),
        distance=mean_distance(counts.to_numpy(), labels.count_all()),
        notes=tuple(notes),
    )


def mean_distance(counts: np.ndarray, whole: np.ndarray) -> float:
    """Average the clients' total-variation distances to the whole.

    Args:
        counts: of each client in each class, [clients, classes].
        whole: of all samples in each class, [classes].
    """
    counts = counts[counts.sum(axis=1) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.abs(shares - whole / whole.sum()).sum(axis=1).mean() / 2)


def _read_config(name: str, config: Config, pixels: bool) -> SplitView:
    recipe = _required(config.train_dataloader, "partition", "train_dataloader")
    dataset = _build_dataset(config.train_dataloader, "train_dataloader", pixels)
    clients, held_out = divide(recipe, dataset)
    labels = _read_labels(dataset)
    tests: dict[str, Labels] = {}
    notes = []
    for test, entry in (config.get("val_dataloader") or {}).items():
        if entry is None:  # a test set that the config leaves out
            continue
        if entry.get("held_out"):
            samples = np.concatenate([*held_out.values()])
            tests[test] = Labels(kind=labels.kind, ids=labels.ids[samples], names=labels.names)
            continue
        try:
            test_set = _build_dataset(entry, f"val_dataloader.{test}", False)
        except MissingDataError as error:
            if not entry.get("optional"):
                raise
            notes.append(f"{name}: test set {test!r} is not there ({error})")
            continue
        tests[test] = _read_labels(test_set)
        shared = _count_shared(dataset, test_set)
        if shared:
            notes.append(f"{name}: {shared} images of test set {test!r} are training images")
    view = count_split(name, clients, labels, tests, notes)
    unused = view.unused - sum(len(samples) for samples in held_out.values())
    view = replace(view, unused=unused)
    return _count_pixels(view, clients, dataset) if pixels else view


def _count_pixels(view: SplitView, clients: Mapping[str, np.ndarray], dataset: Any) -> SplitView:
    """Count pixels of each class that the clients hold instead of images; reads label maps."""
    if not isinstance(dataset, SegmentationDataset):
        raise ConfigError(f"--pixels: {view.name} has no label maps: leave it out")
    counts = dataset.class_pixels()
    for sample in range(len(counts)):
        known = dataset.known_classes(sample)
        if known is not None:
            counts[sample] *= np.isin(np.arange(counts.shape[1]), [*known])
    by_client = np.stack([counts[samples].sum(axis=0) for samples in clients.values()])
    classes = dataset.metainfo["classes"]
    return replace(
        view,
        kind=CLASSES,
        unit="pixels",
        counts=pd.DataFrame(by_client, list(clients), classes),
        tests=pd.DataFrame(columns=classes),
        distance=mean_distance(by_client, counts.sum(axis=0)),
    )


def _count_shared(train: Any, test: Any) -> int:
    """Count the test images that are training images: by file, or by content if in memory."""
    if isinstance(train, ImageArrays) and isinstance(test, ImageArrays):
        return len(shared_images(train.images, test.images))
    if isinstance(train, SegmentationDataset) and isinstance(test, SegmentationDataset):
        trained = {image for image, _ in train.files}
        return sum(image in trained for image, _ in test.files)
    return 0


def _required(loader: Any, key: str, field: str) -> Any:
    if not isinstance(loader, Mapping) or loader.get(key) is None:
        raise ConfigError(f"{field}.{key}: is missing")
    return loader[key]


def _build_dataset(loader: Any, field: str, images: bool) -> Any:
    """Build a loader's data set; without ``images`` one that a split file lists needs none."""
    config = _required(loader, "dataset", field)
    if images:
        return build_dataset(config, f"{field}.dataset")
    if isinstance(config, Mapping):
        kind = config.get("type")
        kind = DATASETS.get(kind) if isinstance(kind, str) else kind
        if inspect.isclass(kind) and issubclass(kind, SegmentationDataset):
            config = {k: v for k, v in config.items() if k not in ("style", "pipeline")}
    return build(DATASETS, config, f"{field}.dataset")


def _read_labels(dataset: Any) -> Labels:
    """Read class ids if each sample has one, else domains; without either there is one domain."""
    ids = np.asarray(getattr(dataset, "labels", None))
    is_class = ids.shape == (len(dataset),) and np.issubdtype(ids.dtype, np.integer)
    if is_class and ids.size and ids.min() >= 0:
        names = (getattr(dataset, "metainfo", None) or {}).get("classes")
        if names is None:
            names = [str(number) for number in range(ids.max() + 1)]
        if ids.max() >= len(names):
            raise DataError(f"class id {ids.max()} occurs, but there are {len(names)} classes")
        return Labels(kind=CLASSES, ids=ids, names=list(names))
    domains = getattr(dataset, "domains", None)
    if domains is None:
        domains = ["all"] * len(dataset)
    return _label_domains(domains)


def _label_domains(domains: Sequence[str]) -> Labels:
    names, ids = np.unique(np.asarray(domains, str), return_inverse=True)
    return Labels(kind=DOMAINS, ids=ids, names=names.tolist())


def _read_file(name: str, path: Path) -> SplitView:
    """Read clients by indices, with the labels of the prepared folder that the file lies in."""
    if not path.is_file():
        raise DataError(f"{path}: does not exist: {FIX}")
    for root in path.resolve().parents:
        if (root / INDEX).is_file():
            break
    else:
        raise DataError(f"{path}: lies in no prepared folder: {FIX}")
    train = StoredImages(root, "train")
    clients = FixedPartition(file=path)(train)
    tests = {"test": _read_labels(StoredImages(root, "test"))}
    return count_split(name, clients, _read_labels(train), tests)


def _read_folder(name: str, folder: Path) -> SplitView:
    """Read a folder of split files with ``train`` and ``test``, as fedseg prepare writes it."""
    if not (folder / "train").is_dir():
        raise DataError(f"{folder}: has no folder train: {FIX}")
    train = read_split(folder / "train")
    tests = {}
    if (folder / "test").is_dir():
        users = read_split(folder / "test").users
        tests = {user: Split({user: pairs}) for user, pairs in users.items()}
    layout = _find_layout([train, *tests.values()])
    notes = []
    if layout is None:
        notes.append(f"{folder}: its paths are of no known data set: the domains are not known")
    clients = {}
    start = 0
    for client, samples in train.users.items():
        clients[client] = np.arange(start, start + len(samples))
        start += len(samples)
    labels = {test: _domains_of(split, layout) for test, split in tests.items()}
    return count_split(name, clients, _domains_of(train, layout), labels, notes)


def _domains_of(split: Split, layout: str | None) -> Labels:
    """Read the domains of a split's images from their paths."""
    if layout is None:
        return _label_domains(["all"] * len(split.samples))
    return _label_domains([fields_of(layout, image)["domain"] for image, _ in split.samples])


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
