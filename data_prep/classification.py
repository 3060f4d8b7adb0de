"""Small labeled images: verify them, convert them once, write splits.

A prepared folder has its own checksums. Running the command again compares them with the source,
or without one with what was written, and changes nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

import fedseg.datasets
from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    USERS,
    images_checksum,
    is_synthetic,
    load_array,
    read_index,
    write_images,
)
from fedseg.errors import ConfigError, DataError
from fedseg.names import OVERLAP, PARTITIONS, SHAPES

from .description import NO_SPLIT, PACHINKO, ImageSet, Outcome, next_command
from .image_files import Labeled, check, find_images, find_source, read_images, resolve_overlap
from .image_partitions import named_partitions, save_split
from .released_splits import find_released, write_released
from .synthetic_shapes import write_shapes

UNCHANGED = "is prepared already, verified"


def prepare(
    published: ImageSet,
    root: Path,
    *,
    source: Path | None = None,
    download: bool = False,
    synthetic: bool = False,
    unofficial: bool = False,
    overlap: Literal[OVERLAP] = OVERLAP[0],
    overwrite: bool = False,
    partition: Literal[(*PARTITIONS, NO_SPLIT)] = NO_SPLIT,
    alpha: Sequence[float] | None = None,
    beta: float = PACHINKO["beta"],
    num_clients: int | None = None,
    seed: int = 0,
    users: Path | None = None,
    released: Path | None = None,
) -> Outcome:
    """Make the prepared folder or verify the one that is there, and write the splits asked for.

    Args:
        source: where the images are; None: in the root.
        download: download the official files if they are not there.
        synthetic: render images instead.
        unofficial: accept other images than the published ones.
        overlap: what to do with images that are in both splits, one of OVERLAP.
        overwrite: replace existing images or splits that differ.
        partition: how splits are drawn, one of PARTITIONS, or NO_SPLIT; one for each ``alpha``.
        users: a CSV file with the client of each image, for the natural partition.
        released: instead, a folder with split files that a paper has released.
    """
    if root.exists() and not root.is_dir():
        raise ConfigError(f"--root: {root} is a file; name a folder")
    if synthetic and (source or download):
        raise ConfigError("--synthetic: renders images, leave out --source and --download")
    splits = []
    if released is not None:
        released_files = find_released(published, released)
    elif partition != NO_SPLIT:
        usual = {"pachinko": (PACHINKO["alpha"],), **published.alphas}
        clients = PACHINKO["clients"] if partition == "pachinko" else published.clients
        splits = named_partitions(
            partition,
            alpha or usual.get(partition, ()),
            users,
            num_clients=clients if num_clients is None else num_clients,
            beta=beta,
            seed=seed,
            key="users",
        )
    if synthetic:
        done = _render(published, root, overwrite)
    else:
        done = _convert(published, root, source, download, unofficial, overlap, overwrite)
    # verifies the checksums
    train, test = (getattr(fedseg.datasets, published.dataset)(root, split) for split in SPLITS)
    index, shapes = read_index(root / INDEX), is_synthetic(root)
    print(
        f"{root}: {done}: {len(train)} + {len(test)} images of {len(train.classes)} classes "
        f"({index.get('source') or 'unknown source'}), {index.get('shared_images') or 'none'} in "
        "both splits"
    )
    if shapes:
        print("The images are synthetic: results are not comparable with published ones.")
    usual_root = Path(SHAPES if shapes else f"data/{published.name.lower()}")
    if released is not None:
        files = write_released(published, train, test, released_files, source, overwrite)
        command = f"{published.setting} --with released_split"
        return Outcome(files, closing=next_command(command, usual_root, root))
    files, charts = [], []
    for split in splits:
        clients = split.clients(train)
        files.append(save_split(root, split, train, clients, overwrite))
        charts.append((clients, train.labels, train.classes, files[-1].with_suffix(".png")))
    setting = "demo_shapes" if shapes else published.setting
    closing = next_command(setting, usual_root, root)
    if files:
        closing += (
            "\nConfigs make their own split from the images, the same for the same options and "
            "seed. To use a file: "
            f"partition=dict(_delete_=True, type='FixedPartition', file='{files[0]}')"
        )
    return Outcome(files, charts, closing)


def _convert(
    published: ImageSet,
    root: Path,
    source: Path | None,
    download: bool,
    unofficial: bool,
    overlap: str,
    overwrite: bool,
) -> str:
    """Write the prepared folder unless it is there; returns what was done."""
    existing = (root / INDEX).is_file() and not overwrite
    # Published files put next to synthetic images are meant to replace them.
    replacing = existing and is_synthetic(root) and find_images(published, root) is not None
    if existing and source is None and not replacing:
        shared = read_index(root / INDEX).get("shared_images")
        if shared and overlap == "drop":
            raise DataError(
                f"{root}: is prepared, with {shared} images in train and in test: to drop them, "
                "make it again with --overwrite and --source"
            )
        return UNCHANGED
    place = find_source(published, root, source, download)
    print(f"reading {published.name} from {place}")
    data = read_images(published, place)
    check(data, published, place, unofficial)
    data, shared = resolve_overlap(data, overlap, place)
    if shared:
        print(f"note: {shared} test images are training images too, pixel by pixel")
    if existing:
        if _holds(published, root, data):
            return UNCHANGED
        raise DataError(
            f"{root}: holds other images or users than {place}: give --overwrite to replace them, "
            "or another --root"
        )
    write_images(
        root,
        published.name,
        published.classes,
        *((data.parts[split].images, data.parts[split].labels) for split in SPLITS),
        coarse_labels=published.coarse_labels,
        users=data.parts["train"].users,
        source=data.source,
        allow_shared=shared > 0,
    )
    return "written"


def _holds(published: ImageSet, root: Path, data: Labeled) -> bool:
    index = read_index(root / INDEX)
    if is_synthetic(root) or tuple(index["classes"]) != published.classes:
        return False
    for split, part in data.parts.items():
        if index["splits"][split]["sha256"] != images_checksum(part.images, part.labels):
            return False
    users, file = data.parts["train"].users, root / USERS
    if users is None or not file.exists():
        return users is None and not file.exists()
    return np.array_equal(np.array(users, np.str_), load_array(file, "give --overwrite"))


def _render(published: ImageSet, root: Path, overwrite: bool) -> str:
    """Render images unless they are there; returns what was done."""
    if not published.rendered:
        raise ConfigError(f"--synthetic: there is no synthetic {published.name}")
    if (root / INDEX).is_file() and not overwrite:
        if not is_synthetic(root):
            raise DataError(
                f"{root}: holds images that --synthetic has not rendered: give another --root, or "
                "--overwrite to replace them"
            )
        return UNCHANGED
    write_shapes(root)
    return "rendered"
