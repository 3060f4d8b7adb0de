"""What the prepare tools of CIFAR and MNIST do: verify, convert once, write splits, tell.

A prepared folder has its own checksums. Running a tool again compares them with the source, or
without one with what was written, and changes nothing.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from data_prep.labelled import SHARED, Labelled, Published, check, resolve_overlap
from data_prep.prepare import is_embedded
from data_prep.splits import Wanted, save_split
from fedseg.cli import python
from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    StoredImages,
    images_checksum,
    read_index,
    write_images,
)
from fedseg.errors import ConfigError, DataError
from fedseg.report.partition_charts import draw_partition, partition_statistics, print_statistics

USERS = "train_users.npy"


@dataclass(frozen=True)
class ImageSet:
    """A published data set, as :func:`prepare` sees it.

    Attributes:
        published: what it is like.
        dataset: the class that reads the prepared folder.
        find: the source in a folder, or None.
        read: a source, as images.
        download: fetch the source into a folder.
        hint: what the user should put where.
        setting: of ``configs/settings``, that trains on it.
        render: write a rendered set into a folder, if there is one.
    """

    published: Published
    dataset: type[StoredImages]
    find: Callable[[Path], Path | None]
    read: Callable[[Path], Labelled]
    download: Callable[[Path], Path]
    hint: str
    setting: str
    render: Callable[[Path], object] | None = None


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        root: the prepared folder.
        source: where the images are; None: look into ``root``.
        download: fetch them if they are not in ``root``.
        embedded: render images instead.
        unofficial: accept other images than the published ones.
        shared: what to do with images that are in both splits, one of SHARED.
        overwrite: replace what is there and differs.
    """

    root: Path
    source: Path | None = None
    download: bool = False
    embedded: bool = False
    unofficial: bool = False
    shared: str = SHARED[0]
    overwrite: bool = False


def prepare(kind: ImageSet, options: Options) -> StoredImages:
    """Make the prepared folder, or verify the one that is there.

    Returns:
        Its training images.

    Raises:
        ConfigError: options that contradict one another.
        DataError: no source, a faulty one, or other images are there and would be replaced.
    """
    console = Console(soft_wrap=True, highlight=False)
    root = options.root
    if root.exists() and not root.is_dir():
        raise ConfigError(f"--root: {root} is a file; name a folder")
    if options.embedded and (options.source or options.download):
        raise ConfigError("--embedded: renders images, leave out --source and --download")
    if options.embedded:
        _render(kind, options, console)
    else:
        _convert(kind, options, console)
    train = kind.dataset(root, "train")
    if is_embedded(root):
        console.print("The images are rendered: figures are not the published data set's.")
    return train


def write_splits(
    root: Path, dataset: StoredImages, asked: list[Wanted], overwrite: bool = False
) -> list[Path]:
    """Write, tell and draw the splits.

    Returns:
        Their JSON files.

    Raises:
        ConfigError: a split cannot be made of these images.
        DataError: another one is there and would be replaced.
    """
    console = Console(soft_wrap=True, highlight=False)
    files = []
    for one in asked:
        clients = one.clients(dataset)
        statistics = partition_statistics(clients, dataset.labels, len(dataset.classes))
        file, there = save_split(root, one, dataset, clients, statistics, overwrite)
        console.print(f"{file}: {'is there already, the same' if there else 'written'}")
        print_statistics(statistics, title=one.name, console=console)
        picture = file.with_suffix(".png")
        draw_partition(clients, dataset.labels, dataset.classes, picture, title=one.name)
        files.append(file)
    return files


def show_next(kind: ImageSet, root: Path, splits: list[Path]) -> None:
    """Print the command to run next."""
    command = f"{python()} tools/train.py configs/settings/{kind.setting}.py --dry-run"
    if root != Path("data") / kind.published.name.lower():
        command += f" --cfg-options {shlex.quote(f'data_root={root}')}"
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"Next: {command}")
    if splits:
        console.print(
            "Configs make their own split from the images, the same for the same options and "
            f"seed. To use a file: partition=dict(type='FixedPartition', file='{splits[0]}')"
        )


def verify_stored(root: Path) -> None:
    """Compare a prepared folder with its own checksums.

    Raises:
        DataError: it was changed since it was written.
    """
    index = read_index(root / INDEX)
    for split in SPLITS:
        stored = StoredImages(root, split)
        if images_checksum(stored.images, stored.labels) != index["splits"][split]["sha256"]:
            raise DataError(
                f"{root / f'{split}_images.npy'}: the {split} images or labels are not those that "
                f"{root / INDEX} has the checksum of: prepare them again with --overwrite"
            )


def _convert(kind: ImageSet, options: Options, console: Console) -> None:
    root, name = options.root, kind.published.name
    there = (root / INDEX).is_file()
    # The published files may have been put beside rendered images: then they are meant.
    meant = options.source or (
        there and not options.overwrite and is_embedded(root) and kind.find(root)
    )
    if there and not options.overwrite and not meant:
        _verify(kind, root)
        console.print(f"{root}: is prepared already, verified: {_told(root)}")
        return
    source = _source(kind, options)
    console.print(f"reading {name} from {source}")
    data = kind.read(source)
    check(data, kind.published, source, options.unofficial)
    data, shared = resolve_overlap(data, options.shared, source)
    if shared:
        console.print(
            f"note: {shared} test images are training images too, pixel by pixel"
            + (" (so they are in the published files)" if data.official else "")
        )
    if there and not options.overwrite and _same(root, data):
        _verify(kind, root)
        console.print(f"{root}: is prepared already, verified: {_told(root)}")
        return
    if there and not options.overwrite:
        raise DataError(
            f"{root}: holds other images than {source}: give --overwrite to replace them, or "
            "another --root"
        )
    train, test = (data.parts[split] for split in SPLITS)
    # Clients of other images must not outlive them.
    (root / USERS).unlink(missing_ok=True)
    write_images(
        root,
        name,
        data.classes,
        (train.images, train.labels),
        (test.images, test.labels),
        coarse_labels=data.coarse_labels,
        source=data.source,
        allow_shared=shared > 0,
    )
    if train.users is not None:
        _save_users(root / USERS, train.users)
    console.print(f"{root}: written: {_told(root)}")


def _source(kind: ImageSet, options: Options) -> Path:
    if options.source is not None:
        if not options.source.exists():
            raise DataError(f"{options.source}: does not exist: --source must be {kind.hint}")
        if options.source.is_file():
            return options.source
        return kind.find(options.source) or options.source
    found = kind.find(options.root)
    if found is None and options.download:
        return kind.download(options.root)
    if found is None:
        raise DataError(
            f"{options.root}: holds no {kind.published.name}: put {kind.hint} there, name it with "
            "--source, or fetch it with --download"
        )
    return found


def _verify(kind: ImageSet, root: Path) -> None:
    kind.dataset(root, "train")  # shape and classes are those of this data set
    verify_stored(root)


def _same(root: Path, data: Labelled) -> bool:
    index = read_index(root / INDEX)
    return (
        not is_embedded(root)
        and tuple(index["classes"]) == data.classes
        and all(index["splits"][split]["sha256"] == data.parts[split].checksum for split in SPLITS)
    )


def _render(kind: ImageSet, options: Options, console: Console) -> None:
    root = options.root
    if kind.render is None:
        raise ConfigError(f"--embedded: there is no rendered {kind.published.name}")
    if (root / INDEX).is_file() and not options.overwrite:
        if not is_embedded(root):
            raise DataError(
                f"{root}: holds images that --embedded has not rendered: give another --root, or "
                "--overwrite to replace them"
            )
        _verify(kind, root)
        console.print(f"{root}: is rendered already, verified: {_told(root)}")
        return
    (root / USERS).unlink(missing_ok=True)
    kind.render(root)
    console.print(f"{root}: rendered: {_told(root)}")


def _told(root: Path) -> str:
    index = read_index(root / INDEX)
    sizes = " + ".join(str(index["splits"][split]["images"]) for split in SPLITS)
    shared = index.get("shared_images", 0)
    return (
        f"{sizes} images of {len(index['classes'])} classes "
        f"({index.get('source') or 'source not said'}), "
        + (f"{shared} in both splits" if shared else "none in both splits")
    )


def _save_users(path: Path, users: list[str]) -> None:
    scratch = path.with_name(path.name + ".tmp")
    with open(scratch, "wb") as file:
        np.save(file, np.array(users, dtype=np.str_))
    scratch.replace(path)
