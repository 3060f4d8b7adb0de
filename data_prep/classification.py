"""What the prepare tools of CIFAR and MNIST do: verify, convert once, write splits.

A prepared folder has its own checksums. Running a tool again compares them with the source, or
without one with what was written, and changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    USERS,
    StoredImages,
    images_checksum,
    load_array,
    read_index,
    write_images,
)
from fedseg.datasets.synthetic import is_synthetic
from fedseg.errors import ConfigError, DataError
from fedseg.names import OVERLAP, SHAPES

from .arguments import print_next
from .image_partitions import NamedPartition, save_split
from .labeled import ImageSet, Labeled, check, resolve_overlap
from .synthetic_shapes import write_shapes

UNCHANGED = "is prepared already, verified"


@dataclass(frozen=True)
class ImageOptions:
    """What the user asked for."""

    root: Path  # the prepared folder
    source: Path | None = None  # where the images are; None: look into root
    download: bool = False  # download them if they are not in root
    synthetic: bool = False  # render images instead
    unofficial: bool = False  # accept other images than the published ones
    overlap: str = OVERLAP[0]  # what to do with images that are in both splits
    overwrite: bool = False  # replace existing images or splits that differ


def prepare(kind: ImageSet, options: ImageOptions) -> StoredImages:
    """Make the prepared folder, or verify the one that is there; returns its training images.

    Raises:
        ConfigError: options that contradict one another.
        DataError: no source, a faulty one, or other images are there and would be replaced.
    """
    root = options.root
    if root.exists() and not root.is_dir():
        raise ConfigError(f"--root: {root} is a file; name a folder")
    if options.synthetic and (options.source or options.download):
        raise ConfigError("--synthetic: renders images, leave out --source and --download")
    outcome = (_render if options.synthetic else _convert)(kind, options)
    train, test = (kind.dataset(root, split) for split in SPLITS)  # verified: checksum, classes
    index = read_index(root / INDEX)
    print(
        f"{root}: {outcome}: {len(train)} + {len(test)} images of {len(train.classes)} classes "
        f"({index.get('source') or 'unknown source'}), {index.get('shared_images') or 'none'} in "
        "both splits"
    )
    if is_synthetic(root):
        print("The images are synthetic: results are not comparable with published ones.")
    return train


def prepare_and_split(
    kind: ImageSet,
    options: ImageOptions,
    asked: Sequence[NamedPartition],
    draw: Callable[[Mapping[str, np.ndarray], np.ndarray, Sequence[str], Path], None],
) -> None:
    """Prepare the images, write the splits asked for, and print the command to run next.

    ``draw`` shows clients, given labels and class names, and writes a chart to the path. Errors are
    those of :func:`prepare` and of the splits; one that is there is not replaced unasked.
    """
    root, dataset, file = options.root, prepare(kind, options), None
    for one in asked:
        clients = one.clients(dataset)
        written = save_split(root, one, dataset, clients, options.overwrite)
        draw(clients, dataset.labels, dataset.classes, written.with_suffix(".png"))
        file = file or written
    setting, usual = kind.setting, Path("data", kind.name.lower())
    if is_synthetic(root):
        setting, usual = "demo_shapes", Path(SHAPES)
    print_next(setting, usual, root)
    if file is not None:
        print(
            "Configs make their own split from the images, the same for the same options and "
            f"seed. To use a file: "
            f"partition=dict(_delete_=True, type='FixedPartition', file='{file}')"
        )


def _convert(kind: ImageSet, options: ImageOptions) -> str:
    """Write the prepared folder unless it is there; returns what was done."""
    root, name = options.root, kind.name
    existing = (root / INDEX).is_file() and not options.overwrite
    # Published files put next to synthetic images are meant to replace them.
    wanted = options.source or (existing and is_synthetic(root) and kind.find(root))
    if existing and not wanted:
        shared = read_index(root / INDEX).get("shared_images")
        if shared and options.overlap == "drop":
            raise DataError(
                f"{root}: is prepared, with {shared} images in train and in test: to drop them, "
                "make it again with --overwrite and --source"
            )
        return UNCHANGED
    source = find_source(kind, options)
    print(f"reading {name} from {source}")
    data = kind.read(source, options.unofficial)
    check(data, kind, source, options.unofficial)
    data, shared = resolve_overlap(data, options.overlap, source)
    if shared:
        print(f"note: {shared} test images are training images too, pixel by pixel")
    if existing:
        if _holds(root, data):
            return UNCHANGED
        raise DataError(
            f"{root}: holds other images or users than {source}: give --overwrite to replace them, "
            "or another --root"
        )
    train, test = (data.parts[split] for split in SPLITS)
    write_images(
        root,
        name,
        data.classes,
        (train.images, train.labels),
        (test.images, test.labels),
        coarse_labels=data.coarse_labels,
        users=train.users,
        source=data.source,
        allow_shared=shared > 0,
    )
    return "written"


def find_source(kind: ImageSet, options: ImageOptions) -> Path:
    """Where the images are read from; DataError if there is none."""
    if options.source is not None:
        if not options.source.exists():
            raise DataError(f"{options.source}: does not exist: --source must be {kind.hint}")
        return kind.find(options.source) or options.source
    found = kind.find(options.root)
    if options.download and (found is None or found.is_file()):  # an archive may be cut short
        return kind.download(options.root)
    if found is None:
        raise DataError(
            f"{options.root}: holds no {kind.name}: put {kind.hint} there, name it with "
            "--source, or give --download"
        )
    return found


def _holds(root: Path, data: Labeled) -> bool:
    index = read_index(root / INDEX)
    if is_synthetic(root) or tuple(index["classes"]) != data.classes:
        return False
    found = {split: images_checksum(part.images, part.labels) for split, part in data.parts.items()}
    if any(index["splits"][split]["sha256"] != found[split] for split in SPLITS):
        return False
    users, file = data.parts["train"].users, root / USERS
    if users is None or not file.exists():
        return users is None and not file.exists()
    return np.array_equal(np.array(users, np.str_), load_array(file, "give --overwrite"))


def _render(kind: ImageSet, options: ImageOptions) -> str:
    """Render images unless they are there; returns what was done."""
    root = options.root
    if kind.name != "CIFAR10":
        raise ConfigError(f"--synthetic: there is no synthetic {kind.name}")
    if (root / INDEX).is_file() and not options.overwrite:
        if not is_synthetic(root):
            raise DataError(
                f"{root}: holds images that --synthetic has not rendered: give another --root, or "
                "--overwrite to replace them"
            )
        return UNCHANGED
    write_shapes(root)
    return "rendered"
