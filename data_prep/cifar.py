"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), from whatever form they are in.

- the official Python archive, ``cifar-10-python.tar.gz`` or ``cifar-100-python.tar.gz``, or the
  folder of batches that it unpacks to: torchvision verifies their md5 and reads them;
- images of one's own (a subset, a cleaned version) in one of the forms of
  :mod:`data_prep.own_images`.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import check_integrity, download_url, extract_archive

from data_prep import own_images
from data_prep.classification import ImageSet
from data_prep.labeled import Labeled, Part, Published
from data_prep.synthetic_shapes import write_shapes
from fedseg.datasets.arrays import SPLITS, CIFAR10Dataset, CIFAR100Dataset
from fedseg.errors import DataError

SHAPE = (32, 32, 3)
_NAMES_10 = "airplane automobile bird cat deer dog frog horse ship truck"
CLASSES_10 = tuple(_NAMES_10.split())

# Superclass -> classes of CIFAR-100, as on the data set's page. Labels are the alphabetical order.
GROUPS_100 = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
COARSE_OF_100 = {
    name: number for number, text in enumerate(GROUPS_100.values()) for name in text.split()
}


@dataclass(frozen=True)
class Kind:
    """One of the two data sets."""

    published: Published
    torchvision: type[datasets.CIFAR10]  # knows the official files and their md5
    dataset: type[CIFAR10Dataset] | type[CIFAR100Dataset]  # reads the prepared folder
    labels_key: str  # where a batch has its labels
    setting: str  # of configs/settings, that trains on it
    coarse_of: Mapping[str, int] | None = None  # superclass of each class name

    @property
    def batches(self) -> dict[str, list[str]]:
        """For each split, its files."""
        lists = (self.torchvision.train_list, self.torchvision.test_list)
        return {s: [name for name, _ in files] for s, files in zip(SPLITS, lists, strict=True)}

    @property
    def files(self) -> list[str]:
        """Every file of the official form."""
        meta = self.torchvision.meta["filename"]
        return [*self.batches["train"], *self.batches["test"], meta]


KINDS = {
    "cifar10": Kind(
        Published("CIFAR10", SHAPE, CLASSES_10, {"train": (5000,) * 10, "test": (1000,) * 10}),
        datasets.CIFAR10,
        CIFAR10Dataset,
        "labels",
        "cifar10_a005",
    ),
    "cifar100": Kind(
        Published(
            "CIFAR100",
            SHAPE,
            tuple(sorted(COARSE_OF_100)),
            {"train": (500,) * 100, "test": (100,) * 100},
        ),
        datasets.CIFAR100,
        CIFAR100Dataset,
        "fine_labels",
        "cifar100_a05",
        COARSE_OF_100,
    ),
}


def image_set(name: str, unofficial: bool = False) -> ImageSet:
    """How a CIFAR of KINDS is prepared; ``unofficial``: accept other images than published."""
    kind = KINDS[name]
    return ImageSet(
        kind.published,
        kind.dataset,
        find=partial(find_source, kind=kind),
        read=partial(read, kind=kind, unofficial=unofficial),
        download=partial(download, kind=kind),
        hint=f"{kind.torchvision.filename}, its batches, image folders or .npz files",
        setting=kind.setting,
        render=write_shapes if name == "cifar10" else None,
    )


def find_source(folder: Path, kind: Kind) -> Path | None:
    """What is in a folder (or the folder itself): an archive, batches, .npz files or images."""
    official = kind.torchvision
    for place in (folder / official.filename, folder / official.base_folder, folder):
        if place.is_file() or (place.is_dir() and own_images.form(place, kind.files) is not None):
            return place
    return None


def download(root: Path, kind: Kind) -> Path:
    """Download the official archive into ``root`` unless it is there; its md5 is checked.

    Raises:
        DataError: there is no network, or another file was received.
    """
    url, name = kind.torchvision.url, kind.torchvision.filename
    try:
        download_url(url, str(root), name, kind.torchvision.tgz_md5)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{root / name}: cannot be downloaded from {url} ({error}): download it on another "
            "machine and put it there"
        ) from error
    return root / name


def read(source: Path, kind: Kind, unofficial: bool = False) -> Labeled:
    """Read a data set; its content is still to be checked with :func:`data_prep.labeled.check`.

    Args:
        source: an archive, or a folder in one of the forms.
        kind: which data set.
        unofficial: accept batches that are not the official ones.

    Raises:
        DataError: the source is in none of the forms, damaged, unsafe, or not of this data set.
    """
    classes = kind.published.classes
    coarse = None if kind.coarse_of is None else tuple(kind.coarse_of[name] for name in classes)
    parts = _official(source, kind)
    if parts is not None:
        return Labeled(parts, classes, "official batches, md5 verified", coarse, official=True)
    form = "batches" if source.is_file() else own_images.form(source, kind.files)
    if form == "npz":
        parts, origin = own_images.from_npz(source, kind.published), ".npz files"
    elif form == "images":
        parts, origin = own_images.from_folders(source, kind.published), "image folders"
    elif form == "batches":
        files = own_images.batch_files(source, kind.files)
        parts = own_images.from_batches(
            files, source, kind.published, kind.batches, kind.labels_key, kind.torchvision.meta
        )
        origin = "batches of the official form"
        if not unofficial:
            raise DataError(
                f"{source}: is not the official data set, another md5 (archive: "
                f"{kind.torchvision.tgz_md5}): get it again from {kind.torchvision.url}, or give "
                "--unofficial if it is meant to differ"
            )
    else:
        raise DataError(
            f"{source}: holds no {kind.published.name}: expected {kind.torchvision.filename}, its "
            f"batches ({', '.join(kind.files)}), train.npz and test.npz, or train/<class>/*.png "
            "and test/<class>/*.png"
        )
    return Labeled(parts, classes, origin, coarse)


def _official(source: Path, kind: Kind) -> dict[str, Part] | None:
    """The official files, verified and read by torchvision; None if they are others."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = source
        if source.is_file():
            if not check_integrity(source, kind.torchvision.tgz_md5):
                return None
            extract_archive(source, scratch)
            folder = Path(scratch) / kind.torchvision.base_folder
        reader = type("Reader", (kind.torchvision,), {"base_folder": folder.name})
        try:
            sets = {s: reader(folder.resolve().parent, train=s == "train") for s in SPLITS}
        except RuntimeError:  # missing, or another md5
            return None
    return {
        split: Part(found.data, np.array(found.targets, np.int64), f"{source}: {split} {{}}".format)
        for split, found in sets.items()
    }
