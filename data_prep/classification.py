"""Small labeled images: verify them and convert them once.

A prepared folder has its own checksums. Running the command again compares them with the source,
or without one with what was written, and changes nothing.
"""

from collections.abc import Callable
from pathlib import Path

import fedseg.datasets
from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    StoredImages,
    images_checksum,
    is_synthetic,
    read_index,
    write_images,
)
from fedseg.errors import DataError
from fedseg.names import SHAPES

from .facts import ImageSet
from .image_order import in_order
from .labeled import Labeled
from .npz_files import read_npz
from .outcome import Outcome, fewer_clients, next_command
from .synthetic_shapes import write_shapes

Reader = Callable[[ImageSet, Path], Labeled]  # of the official files in a folder

CLIENTS_PER_ROUND = 10  # of the settings whose clients are users
UNCHANGED = "is prepared already, verified"


def prepare_images(
    published: ImageSet,
    root: Path,
    read: Reader,
    source: Path | None = None,
    npz: Path | None = None,
    order: Path | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Make the prepared folder or verify the one that is there; for the arguments see convert."""
    done = convert(published, root, read, source, npz, order, overwrite)
    train, _ = open_prepared(published, root, done)
    return what_next(published, root, train)


def convert(
    published: ImageSet,
    root: Path,
    read: Reader,
    source: Path | None,
    npz: Path | None,
    order: Path | None,
    overwrite: bool,
) -> str:
    """Write the prepared folder unless it is there; returns what was done.

    Args:
        read: reads the official files.
        source: their folder; None: the root.
        npz: folder of ``train.npz`` and ``test.npz`` instead of them.
        order: file of the order that the images are put into.
        overwrite: replace other images.
    """
    existing = (root / INDEX).is_file() and not overwrite
    if existing and source is None and npz is None and order is None:
        return UNCHANGED
    data = _read(published, read, source or root, npz)
    if order is not None:
        data = in_order(data, order)
    if existing:
        if _is_stored(published, root, data):
            return UNCHANGED
        raise DataError(
            f"{root}: has other images or users, or another order: give --overwrite to replace "
            "them, or another --root"
        )
    write_images(
        root,
        published.name,
        published.classes,
        *((data.parts[split].images, data.parts[split].labels) for split in SPLITS),
        coarse_labels=published.coarse_labels,
        users=data.parts["train"].users,
        unofficial=data.unofficial,
        source=data.source,
        allow_shared=not data.unofficial,  # published files stay as they are
    )
    return "written"


def _read(published: ImageSet, read: Reader, source: Path, npz: Path | None) -> Labeled:
    """Read the official files in a folder, or ``.npz`` files instead."""
    if npz is not None:
        return read_npz(published, npz)
    return read(published, source)


def _is_stored(published: ImageSet, root: Path, data: Labeled) -> bool:
    """Compare the prepared folder with these images, labels and users, in this order."""
    for split, part in data.parts.items():
        stored = _open(published, root, split)
        if stored.split_checksum != images_checksum(part.images, part.labels):
            return False
        if split == "train" and stored.users != part.users:
            return False
    return True


def render(root: Path, overwrite: bool) -> str:
    """Render images in the place of CIFAR-10's unless they are there; returns what was done."""
    if (root / INDEX).is_file() and not overwrite:
        if not is_synthetic(root):
            raise DataError(
                f"{root}: has images that --synthetic has not rendered: give another --root, or "
                "--overwrite to replace them"
            )
        return UNCHANGED
    write_shapes(root)
    return "rendered"


def open_prepared(published: ImageSet, root: Path, done: str) -> tuple[StoredImages, StoredImages]:
    """Open both splits of a prepared folder, which verifies them, and print their counts.

    Args:
        done: what was done to the folder.
    """
    train, test = (_open(published, root, split) for split in SPLITS)
    index = read_index(root / INDEX)
    print(
        f"{root}: {done}: {len(train)} + {len(test)} images of {len(train.classes)} classes "
        f"({index.get('source') or 'unknown source'}), {index.get('shared_images') or 'none'} in "
        "both splits"
    )
    return train, test


def _open(published: ImageSet, root: Path, split: str) -> StoredImages:
    return getattr(fedseg.datasets, published.dataset)(root, split)


def what_next(published: ImageSet, root: Path, train: StoredImages) -> Outcome:
    """Name the command that trains on a prepared folder."""
    if is_synthetic(root):
        print("The images are synthetic: results are not comparable with published ones.")
        return Outcome(root, closing=next_command("demo_shapes", Path(SHAPES), root))
    training = []
    if train.users is not None:
        training = fewer_clients(CLIENTS_PER_ROUND, len({*train.users}))
    usual_root = Path(f"data/{published.name.lower()}")
    return Outcome(root, closing=next_command(published.setting, usual_root, root, training))
