"""CIFAR-10 and CIFAR-100: ``fedseg prepare cifar``."""

import argparse
from functools import partial
from pathlib import Path
from typing import Literal

from fedseg.errors import ConfigError
from fedseg.names import SHAPES

from .arguments import (
    PREPARED,
    add_archive_arguments,
    add_member_argument,
    add_overwrite_argument,
    add_root_argument,
    add_source_argument,
    check_exists,
)
from .facts import ImageSet, ReleasedFiles
from .outcome import Outcome, next_command

PURPOSE = "Verify CIFAR-10 or CIFAR-100 and convert it once."
DETAILS = f"""\
examples:
  the folder cifar-10-batches-py of the official archive, in data/cifar10:
    fedseg prepare cifar
  the archive in data/cifar100, unpacked, or downloaded from the authors' page if it is missing:
    fedseg prepare cifar --dataset cifar100 --download
  the clients of the split files released with the ECCV 2022 and FedGloSS papers:
    fedseg prepare cifar --from fedsam/data/cifar10
  images whose archive is not at hand:
    fedseg prepare cifar --npz DIR
  synthetic images, no download:
    fedseg prepare cifar --synthetic

{PREPARED}"""
FIX = (
    "put cifar-10-batches-py (cifar-100-python) there, or give --root or --source or --download or "
    "--npz or --synthetic"
)

CIFAR10 = ImageSet(
    name="CIFAR10",
    shape=(32, 32, 3),
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    dataset="CIFAR10Dataset",
    setting="cifar10_a005",
    released=ReleasedFiles(archive_names=False, left_out={"train": 1, "test": 1}),
)

# Superclass -> classes of CIFAR-100, as on the data set's page. Labels are the alphabetical order.
SUPERCLASSES = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}


def _superclass_of_classes() -> dict[str, int]:
    """Number the superclass of each class of CIFAR-100: class -> superclass."""
    superclass_of = {}
    for number, classes in enumerate(SUPERCLASSES.values()):
        superclass_of |= dict.fromkeys(classes, number)
    return dict(sorted(superclass_of.items()))


SUPERCLASS_OF = _superclass_of_classes()
CIFAR100 = ImageSet(
    name="CIFAR100",
    shape=(32, 32, 3),
    classes=tuple(SUPERCLASS_OF),
    dataset="CIFAR100Dataset",
    setting="cifar100_a05",
    coarse_labels=tuple(SUPERCLASS_OF.values()),
    released=ReleasedFiles(archive_names=True, left_out={"train": 0, "test": 1}),
)
MEMBERS = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root_argument(parser, f"data/DATASET, of rendered images {SHAPES}")
    add_member_argument(parser, [*MEMBERS])
    add_source_argument(parser)
    add_archive_arguments(parser)
    add_overwrite_argument(parser)
    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="render images of 10 classes instead of CIFAR-10",
    )
    parser.add_argument(
        "--from",
        dest="released",
        type=Path,
        metavar="DIR",
        help="convert the released split files in DIR to ROOT/splits/released, and check them "
        "against the archive's images",
    )


def prepare(
    root: Path | None = None,
    *,
    dataset: Literal["cifar10", "cifar100"] = "cifar10",
    source: Path | None = None,
    download: bool = False,
    npz: Path | None = None,
    order: Path | None = None,
    overwrite: bool = False,
    synthetic: bool = False,
    released: Path | None = None,
) -> Outcome:
    """Write the prepared folder or verify the one that is there, and convert released splits.

    Args:
        root: its folder (default: data/cifar10, data/cifar100, of rendered images
            data/demo_shapes).
        dataset: which of them.
        source: folder of the official files (default: the root).
        download: download the official files if they are missing, and unpack them.
        npz: folder of train.npz and test.npz with the images, instead of the official files.
        order: file of the order that the images are put into.
        overwrite: replace files that differ.
        synthetic: render images of 10 classes instead of CIFAR-10.
        released: folder of released split files.
    """
    published = MEMBERS[dataset]
    usual_root = Path("data", dataset)
    if synthetic:
        _check_rendering(published, source, download, npz, order)
        root = root or Path(SHAPES)
    else:
        root = root or usual_root
        if source is None and npz is None and not download:
            check_exists(root, FIX)
    from . import classification, released_splits
    from .cifar_files import read_cifar

    files = None
    if released is not None:
        files = released_splits.find_released(published, released)
    if synthetic:
        done = classification.render(root, overwrite)
    else:
        read = partial(read_cifar, download=download)
        done = classification.convert(published, root, read, source, npz, order, overwrite)
    train, test = classification.open_prepared(published, root, done)
    if files is None:
        return classification.what_next(published, root, train)
    written = released_splits.write_released(
        published, train, test, files, archive=source or root, overwrite=overwrite
    )
    command = f"{published.setting} --with released_split"
    return Outcome(root, written, closing=next_command(command, usual_root, root))


def _check_rendering(
    published: ImageSet,
    source: Path | None,
    download: bool,
    npz: Path | None,
    order: Path | None,
) -> None:
    """Raise ConfigError for ``--synthetic`` with a source, or of CIFAR-100."""
    if source or npz or download or order:
        raise ConfigError("--synthetic: renders images, leave out the options that name others")
    if published is not CIFAR10:
        raise ConfigError(f"--synthetic: there is no synthetic {published.name}")
