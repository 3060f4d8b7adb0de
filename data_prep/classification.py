"""Small labeled images: verify them, convert them once, write splits.

A prepared folder has its own checksums. Running the command again compares them with the source,
or without one with what was written, and changes nothing.
"""

from pathlib import Path

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
from fedseg.names import NO_SPLIT, SHAPES

from .description import PACHINKO, ImageSet, Outcome, fewer_clients, next_command
from .image_files import Labeled, check, find_images, find_source, read_images, resolve_overlap
from .image_order import in_order
from .image_partitions import named_partitions, save_split
from .image_sets import ImageOptions
from .released_splits import find_released, write_released
from .synthetic_shapes import write_shapes

CLIENTS_PER_ROUND = 10  # of the settings whose clients are users
UNCHANGED = "is prepared already, verified"


def prepare(published: ImageSet, root: Path, options: ImageOptions) -> Outcome:
    """Make the prepared folder or verify the one that is there, and write the splits asked for."""
    if options.synthetic and (options.source or options.download or options.order):
        raise ConfigError("--synthetic: renders images, leave out --source, --download and --order")
    partition, num_clients = options.partition, options.num_clients
    splits = []
    if options.released is not None:
        released_files = find_released(published, options.released)
    elif partition != NO_SPLIT:
        usual = {"pachinko": (PACHINKO["alpha"],), **published.alphas}
        alphas = options.alpha or usual.get(partition, ())
        clients = PACHINKO["clients"] if partition == "pachinko" else published.clients
        clients = clients or None if num_clients is None else num_clients
        for flag, value, needless in (
            ("--alpha", alphas or None, ("natural", "homogeneous")),
            ("--num-clients", clients, ("natural",)),
        ):
            if value is None and partition not in needless:
                raise ConfigError(f"{flag}: {published.name} has no usual one: give it")
        splits = named_partitions(
            partition,
            alphas,
            options.users,
            num_clients=clients,
            beta=options.beta,
            seed=options.seed,
            key="users",
        )
    done = (_render if options.synthetic else _convert)(published, root, options)
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
    if options.released is not None:
        files = write_released(published, train, test, released_files, options)
        command = f"{published.setting} --with released_split"
        return Outcome(files, closing=next_command(command, usual_root, root))
    files, charts = [], []
    for split in splits:
        clients = split.clients(train)
        files.append(save_split(root, split, train, clients, options.overwrite))
        charts.append((clients, train.labels, train.classes, files[-1].with_suffix(".png")))
    setting = "demo_shapes" if shapes else published.setting
    training = []
    if train.users is not None and not published.clients:  # its users are the clients
        training = fewer_clients(CLIENTS_PER_ROUND, len({*train.users}))
    closing = next_command(setting, usual_root, root, training)
    if files:
        closing += (
            "\nConfigs make their own split from the images, the same for the same options and "
            "seed. To use a file: "
            f"partition=dict(_delete_=True, type='FixedPartition', file='{files[0]}')"
        )
    return Outcome(files, charts, closing)


def _convert(published: ImageSet, root: Path, options: ImageOptions) -> str:
    """Write the prepared folder unless it is there; returns what was done."""
    existing = (root / INDEX).is_file() and not options.overwrite
    # Published files put next to synthetic images are meant to replace them.
    replacing = existing and is_synthetic(root) and find_images(published, root) is not None
    if existing and options.source is None and options.order is None and not replacing:
        shared = read_index(root / INDEX).get("shared_images")
        if shared and options.overlap == "drop":
            raise DataError(
                f"{root}: is prepared, with {shared} images in train and in test: to drop them, "
                "make it again with --overwrite and --source"
            )
        return UNCHANGED
    place = find_source(published, root, options.source, options.download)
    print(f"reading {published.name} from {place}")
    data = read_images(published, place)
    check(data, published, place, options.unofficial)
    data, shared = resolve_overlap(data, options.overlap, place)
    if shared:
        print(f"note: {shared} test images are training images too, pixel by pixel")
    if options.order is not None:
        data = in_order(data, options.order)
    if existing:
        if _holds(published, root, data):
            return UNCHANGED
        raise DataError(
            f"{root}: has other images or users than {place}, or another order: give --overwrite "
            "to replace them, or another --root"
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


def _render(published: ImageSet, root: Path, options: ImageOptions) -> str:
    """Render images unless they are there; returns what was done."""
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
