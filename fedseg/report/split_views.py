"""Which client holds what, read from a config or from a split's files.

Nothing is trained and no model is built. For segmentation, images need not even be on disk: the
domains follow from the names in the split files.
"""

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from rich.console import Console
from rich.progress import track

from fedseg.datasets import CamVidDataset, CityscapesDataset, IDDADataset
from fedseg.datasets.arrays import INDEX, StoredImages
from fedseg.datasets.images import read_label
from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.partition import FixedPartition, Split, check_clients, read_split
from fedseg.partition.split_files import KEYS
from fedseg.registry import DATASETS, PARTITIONS, build
from fedseg.report.partition_charts import PartitionStatistics, partition_statistics
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config, naming

NOTE = ".note.json"  # beside a split file that a prepare tool wrote
LAYOUTS = (IDDADataset, CityscapesDataset, CamVidDataset)
READERS = 4  # threads that read label maps
MOST_SAMPLES = 20_000_000  # a larger index is a mistake; arrays as long would be made


@dataclass(frozen=True)
class View:
    """A split to be looked at.

    Attributes:
        name: short, for files. title: what it is, in words.
        clients: client id -> indices of samples.
        statistics: of rows instead of classes; of one row without a kind.
        kind: what a sample's label is: ``"class"``, ``"domain"``, or None if only the number of
            samples is known.
        rows: names of the classes or domains, also those that only test sets have.
        tests: test set -> number of its samples.
        test_counts: test set -> its samples in each row, int [rows]; of those that have rows.
        notes: what could not be looked at, in words.
        dataset: of the clients, where label maps can be read from it.
    """

    name: str
    title: str
    clients: Mapping[str, np.ndarray]
    statistics: PartitionStatistics
    kind: str | None = None
    rows: tuple[str, ...] = ()
    tests: Mapping[str, int] = field(default_factory=dict)
    test_counts: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dataset: SegmentationDataset | None = None


def read_views(
    paths: Iterable[str | Path],
    options: Sequence[str] = (),
    images: bool = False,
    methods: Sequence[str] = (),
) -> list[View]:
    """Read configs (``.py``), split files (``.json``) and folders of split files.

    Args:
        paths: of these.
        options: ``KEY=VALUE`` overrides, of configs.
        images: label maps will be read: their files must be there.
        methods: merged over each config.

    Raises:
        ConfigError: a config is wrong, or an override has no config to change.
        DataError: a file is missing, damaged, or no split.
    """
    paths = [Path(path) for path in paths]
    if options and not any(path.suffix == ".py" for path in paths):
        raise ConfigError("--cfg-options: change configs, and no config is named")
    views = []
    for path in paths:
        if path.name.endswith(NOTE):
            continue  # says how the split beside it was made: `splits/*.json` names both
        if path.suffix == ".py":
            views.append(_of_config(path, options, images, methods))
        elif path.is_dir():
            views.append(_of_split(path))
        else:
            views.append(_of_file(path))
    if not views:
        raise DataError("no split is named: only notes about splits")
    return _with_own_names(views)


def _with_own_names(views: Sequence[View]) -> list[View]:
    """The second view of a name is ``<name>_2``, for each is a file."""
    named: dict[str, View] = {}
    for view in views:
        stem = re.sub(r"[^\w.-]+", "_", view.name) or "split"
        names = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        name = next(name for name in names if name not in named)
        named[name] = replace(view, name=name)
    return list(named.values())


# ---------------------------------------------------------------- configs


def _of_config(path: Path, options: Sequence[str], images: bool, methods: Sequence[str]) -> View:
    config = load_config(path, methods=methods, options=options)
    with naming(config):
        return _of_data(path, complete_config(config), images)


def _of_data(path: Path, config: Config, images: bool) -> View:
    loader = config.train_dataloader
    for key in ("dataset", "partition"):
        if loader.get(key) is None:
            raise ConfigError(f"train_dataloader.{key}: is missing")
    dataset = _dataset(loader["dataset"], "train_dataloader.dataset", images)
    partition = build(PARTITIONS, loader["partition"], "train_dataloader.partition")
    clients = check_clients(partition(dataset), len(dataset))
    tests, notes = {}, []
    for name, entry in (config.get("val_dataloader") or {}).items():
        field = f"val_dataloader.{name}"
        if not isinstance(entry, Mapping) or entry.get("dataset") is None:
            raise ConfigError(f"{field}.dataset: is missing")
        try:
            tests[name] = _dataset(entry["dataset"], f"{field}.dataset", False)
        except MissingDataError as error:
            if not entry.get("optional"):
                raise
            notes.append(f"{path.stem}: test set {name!r} is not there ({error})")
    recipe = loader["partition"]
    title = f"{path.stem}: {_recipe(recipe) if isinstance(recipe, Mapping) else partition}"
    return _view(path.stem, title, clients, dataset, tests, notes)


def _dataset(config: Any, field: str, images: bool) -> Any:
    """A data set as configured; one that is listed by a split file needs no images."""
    if isinstance(config, Mapping) and not images:
        kind = config.get("type")
        kind = DATASETS.get(kind) if isinstance(kind, str) else kind
        if inspect.isclass(kind) and issubclass(kind, SegmentationDataset):
            unchecked = type(kind.__name__, (kind,), {"check_files": lambda self: None})
            config = {k: v for k, v in config.items() if k not in ("style", "pipeline")}
            config["type"] = unchecked
    return build(DATASETS, config, field)


def _recipe(config: Mapping[str, Any]) -> str:
    """Type and plain options of a partition."""
    options = [f"{k} {v}" for k, v in config.items() if k != "type" and not isinstance(v, Mapping)]
    return ", ".join([str(config.get("type")), *options])


def _view(
    name: str,
    title: str,
    clients: Mapping[str, np.ndarray],
    dataset: Any,
    tests: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> View:
    """A view of data sets, by class if they have class ids, else by domain if they have these."""
    kind, rows = None, ()
    labels, of_tests = _classes(dataset), {name: _classes(test) for name, test in tests.items()}
    if labels is not None:
        kind = "class"
        most = max(int(array.max()) for array in (labels, *of_tests.values()) if array is not None)
        names = (getattr(dataset, "metainfo", None) or {}).get("classes")
        rows = tuple(names) if names is not None else tuple(map(str, range(most + 1)))
        if most >= len(rows):
            raise DataError(f"{title}: class id {most} occurs, but there are {len(rows)} classes")
    elif getattr(dataset, "domains", None) is not None:
        kind = "domain"
        of_tests = {name: getattr(test, "domains", None) for name, test in tests.items()}
        found = [dataset.domains, *(own for own in of_tests.values() if own is not None)]
        rows = tuple(sorted({str(domain) for own in found for domain in own}))
        number = {domain: row for row, domain in enumerate(rows)}

        def numbered(domains: Any) -> np.ndarray | None:
            return None if domains is None else np.array([number[str(d)] for d in domains])

        labels, of_tests = numbered(dataset.domains), {n: numbered(d) for n, d in of_tests.items()}
    held = np.zeros(len(dataset), np.int64) if labels is None else labels
    statistics = partition_statistics(clients, held, max(len(rows), 1))
    sizes = {test: len(of) for test, of in tests.items()}
    found = {test: own for test, own in of_tests.items() if kind and own is not None}
    counts = {test: np.bincount(own, minlength=len(rows)) for test, own in found.items()}
    maps = dataset if isinstance(dataset, SegmentationDataset) else None
    return View(name, title, clients, statistics, kind, rows, sizes, counts, tuple(notes), maps)


def _classes(dataset: Any) -> np.ndarray | None:
    """Class ids, int [N], if the data set has one a sample."""
    labels = getattr(dataset, "labels", None)
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape != (len(dataset),) or not np.issubdtype(labels.dtype, np.integer):
        return None
    return labels if labels.size and labels.min() >= 0 else None


# ---------------------------------------------------------------- files


def _of_file(path: Path) -> View:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"{path}: does not exist: name a config, a split file or a folder of split files"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no config (.py) and not readable as JSON ({error})") from error
    if isinstance(content, dict) and all(key in content for key in KEYS):
        return _of_split(path.parent)  # all files of a folder are one split
    return _of_indices(path)


def _of_indices(path: Path) -> View:
    """Clients by indices, with the labels of the prepared folder that the file lies in."""
    partition = FixedPartition(file=path)
    root = path.parent.parent
    if not (root / INDEX).is_file():
        known = [i for own in partition.clients.values() for i in own if type(i) is int]
        samples = 1 + max(known, default=0)  # at least: what nobody holds is not known
        if samples > MOST_SAMPLES:
            raise DataError(f"{path}: index {samples - 1:,} is larger than any data set here")
        clients = check_clients(partition.clients, max(samples, 1), str(path))
        note = f"{path}: the classes are not known: {root} is no prepared folder"
        return View(
            path.stem,
            path.stem,
            clients,
            partition_statistics(clients, np.zeros(samples, np.int64), 1),
            notes=(note,),
        )
    train, test = StoredImages(root, "train"), StoredImages(root, "test")
    _check_note(path, train)
    return _view(path.stem, path.stem, partition(train), train, {"test": test})


def _check_note(path: Path, dataset: StoredImages) -> None:
    """Raise DataError if a split was made of other images than those of its folder."""
    note = path.with_suffix(NOTE)
    try:
        known = json.loads(note.read_text(encoding="utf-8")).get("images_sha256")
    except (OSError, ValueError, AttributeError):
        return  # absent, or somebody else's
    if known is not None and known != dataset.split_checksum:
        raise DataError(
            f"{path}: was made of other images than those in {dataset.data_root} ({note.name}): "
            "make it again"
        )


def _of_split(folder: Path) -> View:
    """A folder of FedDrive's split files, or one with such folders ``train`` and ``test``."""
    if (folder / "train").is_dir():
        folder = folder / "train"
    train = read_split(folder)
    beside = folder.parent / "test"
    tests = {}
    if folder.name == "train" and beside.is_dir() and any(beside.glob("*.json")):
        tests = dict(read_split(beside).users)
    name = "_".join(folder.parts[-3:-1] if folder.name == "train" else folder.parts[-2:])
    listed = {test: Split({test: samples}) for test, samples in tests.items()}
    domain_of = _layout([train, *listed.values()])
    ends = np.cumsum([len(samples) for samples in train.users.values()])
    clients = {
        user: np.arange(end - len(samples), end)
        for (user, samples), end in zip(train.users.items(), ends, strict=True)
    }
    notes = [] if domain_of else [f"{folder}: its paths are of no known data set: no domains"]
    return _view(
        name,
        "/".join(folder.parts[-3:]),
        clients,
        _Listed(train, domain_of),
        {test: _Listed(split, domain_of) for test, split in listed.items()},
        notes,
    )


class _Listed:
    """Samples of split files, known by their paths."""

    def __init__(self, split: Split, domain_of: Any) -> None:
        self.domains = [domain_of(x) for x, _ in split.samples] if domain_of else None
        self._count = len(split)

    def __len__(self) -> int:
        return self._count


def _layout(splits: Sequence[Split]) -> Any:
    """How the paths of a data set give the domain; None for an unknown data set.

    A data set is known by how it derives the path of a label from that of its image.
    """
    samples = [sample for split in splits for sample in split.samples]
    for kind in LAYOUTS:
        reader = kind.__new__(kind)  # without a data root: only its rules about paths
        try:
            if all(reader.label_of(x) == y for x, y in samples):
                for x, _ in samples:
                    reader.domain_of(x)
                return reader.domain_of
        except (ValueError, IndexError):
            continue
    return None


# ---------------------------------------------------------------- pixels


def pixel_counts(view: View) -> np.ndarray:
    """Pixels of every class that each client holds, int64 [clients, classes]; reads label maps.

    Raises:
        ConfigError: the view has no label maps.
        DataError: a label map is missing or damaged.
    """
    dataset = view.dataset
    if dataset is None:
        raise ConfigError(
            f"--pixels: {view.name} has no label maps that could be read: it is for configs of "
            "segmentation data sets"
        )
    train_ids = np.full(256, IGNORE)
    train_ids[list(dataset.label_ids)] = list(dataset.label_ids.values())

    def of_image(index: int) -> np.ndarray:
        raw = np.bincount(read_label(dataset.files[index][1]).ravel(), minlength=256)
        return np.bincount(train_ids, weights=raw, minlength=256).astype(np.int64)

    counts = np.zeros((len(view.clients), 256), np.int64)
    jobs = [(row, index) for row, held in enumerate(view.clients.values()) for index in held]
    with ThreadPoolExecutor(READERS) as pool:
        found = pool.map(of_image, [index for _, index in jobs])
        console = Console(stderr=True)
        hidden = not console.is_terminal
        found = track(found, "reading label maps", len(jobs), console=console, disable=hidden)
        for (row, _), pixels in zip(jobs, found, strict=True):
            counts[row] += pixels
    return counts[:, : len(dataset.classes)]
