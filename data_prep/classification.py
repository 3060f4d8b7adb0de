"""Small labeled images: verify them and convert them once.

A prepared folder has its own checksums. Running the command again compares them with the source,
or without one with what was written, and changes nothing.
"""

from pathlib import Path
from typing import Any

import fedseg.datasets
from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    images_checksum,
    is_synthetic,
    read_index,
    write_images,
)
from fedseg.errors import ConfigError, DataError
from fedseg.names import SHAPES

from .description import ImageSet, Labeled, Outcome, fewer_clients, next_command, resolve
from .image_order import in_order
from .image_sets import ImageOptions
from .npz_files import read_npz
from .released_splits import find_released, write_released
from .synthetic_shapes import write_shapes

CLIENTS_PER_ROUND = 10  # of the settings whose clients are users
UNCHANGED = "is prepared already, verified"


def prepare(published: ImageSet, root: Path, options: ImageOptions) -> Outcome:
    """Make the prepared folder or verify the one that is there, and convert released splits."""
    released_files = None
    if options.released is not None:
        released_files = find_released(published, options.released)
    if options.synthetic:
        done = _render(published, root, options)
    else:
        done = _convert(published, root, options)
    train, test = (_open(published, root, split) for split in SPLITS)
    index = read_index(root / INDEX)
    print(
        f"{root}: {done}: {len(train)} + {len(test)} images of {len(train.classes)} classes "
        f"({index.get('source') or 'unknown source'}), {index.get('shared_images') or 'none'} in "
        "both splits"
    )
    usual_root = Path(f"data/{published.name.lower()}")
    if released_files is not None:
        files = write_released(published, train, test, released_files, options)
        command = f"{published.setting} --with released_split"
        return Outcome(files, closing=next_command(command, usual_root, root))
    if is_synthetic(root):
        print("The images are synthetic: results are not comparable with published ones.")
        return Outcome(closing=next_command("demo_shapes", Path(SHAPES), root))
    training = []
    if train.users is not None:
        training = fewer_clients(CLIENTS_PER_ROUND, len({*train.users}))
    return Outcome(closing=next_command(published.setting, usual_root, root, training))


def _open(published: ImageSet, root: Path, split: str) -> Any:
    """Open a split of the prepared folder, which verifies its checksum."""
    return getattr(fedseg.datasets, published.dataset)(root, split)


def _convert(published: ImageSet, root: Path, options: ImageOptions) -> str:
    """Write the prepared folder unless it is there; returns what was done."""
    existing = (root / INDEX).is_file() and not options.overwrite
    if existing and options.source is None and options.npz is None and options.order is None:
        return UNCHANGED
    data = _read(published, root, options)
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


def _read(published: ImageSet, root: Path, options: ImageOptions) -> Labeled:
    """Read the source that the options name, in their order."""
    if options.npz is not None:
        data = read_npz(published, options.npz)
    else:
        data = resolve(published.read)(published, options.source or root, options.download)
    if options.order is not None:
        data = in_order(data, options.order)
    return data


def _is_stored(published: ImageSet, root: Path, data: Labeled) -> bool:
    """Whether the prepared folder has these images, labels and users, in this order."""
    for split, part in data.parts.items():
        stored = _open(published, root, split)
        if stored.split_checksum != images_checksum(part.images, part.labels):
            return False
        if split == "train" and stored.users != part.users:
            return False
    return True


def _render(published: ImageSet, root: Path, options: ImageOptions) -> str:
    """Render images unless they are there; returns what was done."""
    if options.source or options.npz or options.download or options.order:
        raise ConfigError("--synthetic: renders images, leave out the options that name others")
    if not published.rendered:
        raise ConfigError(f"--synthetic: there is no synthetic {published.name}")
    if (root / INDEX).is_file() and not options.overwrite:
        if not is_synthetic(root):
            raise DataError(
                f"{root}: has images that --synthetic has not rendered: give another --root, or "
                "--overwrite to replace them"
            )
        return UNCHANGED
    write_shapes(root)
    return "rendered"
