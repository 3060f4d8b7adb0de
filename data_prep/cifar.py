"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), from whatever form they are in.

- the official Python archive, ``cifar-10-python.tar.gz`` or ``cifar-100-python.tar.gz``, or the
  folder of batches that it unpacks to: torchvision verifies their md5 and reads them;
- images of one's own (a subset, a cleaned version) in one of the forms of
  :mod:`fedseg.data_prep.own_images`.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import check_integrity, download_url, extract_archive

from fedseg.datasets.arrays import SPLITS, CIFAR10Dataset, CIFAR100Dataset, check_images
from fedseg.errors import DataError

from . import own_images
from .labeled import ImageSet, Labeled, Part

SHAPE = (32, 32, 3)
# What is said of a source whose images keep the archive's order.
IN_ORDER = ("official batches, md5 verified", "batches of the official form")
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
class Cifar(ImageSet):
    """One of the two data sets."""

    torchvision: type[datasets.CIFAR10]  # knows the official files and their md5
    labels_key: str  # where a batch has its labels
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

    def find(self, folder: Path) -> Path | None:
        """What is in a folder (or the folder itself): archive, batches, .npz files or images."""
        official = self.torchvision
        for place in (folder / official.filename, folder / official.base_folder, folder):
            if place.is_file() or (place.is_dir() and own_images.form(place, self.files)):
                return place
        return None

    def download(self, root: Path) -> Path:
        """Download the archive; see :class:`~fedseg.data_prep.labeled.ImageSet`."""
        url, name = self.torchvision.url, self.torchvision.filename
        try:
            download_url(url, str(root), name, self.torchvision.tgz_md5)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{root / name}: cannot be downloaded from {url} ({error}): download it on another "
                "machine and put it there"
            ) from error
        return root / name

    def read(self, source: Path, unofficial: bool = False) -> Labeled:
        """Read a source in one of the forms; see :class:`~fedseg.data_prep.labeled.ImageSet`."""
        form = "batches" if source.is_file() else own_images.form(source, self.files)
        official = self._official(source)
        if official is not None:
            parts, origin = official, IN_ORDER[0]
        elif form == "npz":
            parts, origin = own_images.from_npz(source, self), ".npz files"
        elif form == "images":
            parts, origin = own_images.from_folders(source, self), "image folders"
        elif form == "batches":
            parts, origin = self._own_batches(source), IN_ORDER[1]
            if not unofficial:
                raise DataError(
                    f"{source}: is not the official data set, another md5 (archive: "
                    f"{self.torchvision.tgz_md5}): get it again from {self.torchvision.url}, or "
                    "give --unofficial if it is meant to differ"
                )
        else:
            raise DataError(
                f"{source}: holds no {self.name}: expected {self.torchvision.filename}, its "
                f"batches ({', '.join(self.files)}), train.npz and test.npz, or "
                "train/<class>/*.png and test/<class>/*.png"
            )
        coarse = tuple(map(self.coarse_of.get, self.classes)) if self.coarse_of else None
        return Labeled(parts, self.classes, origin, coarse, official is not None)

    def file_names(self, source: Path) -> dict[str, list[str]]:
        """For each split, the archive's own name of each image, without ".png".

        Raises:
            DataError: the source is no archive or folder of batches, or they hold no such names.
        """
        if source.is_dir() and own_images.form(source, self.files) != "batches":
            raise DataError(f"{source}: has no names of images: give the archive as --source")
        files = own_images.batch_files(source, self.files)
        names: dict[str, list[str]] = {}
        for split, batches in self.batches.items():
            names[split] = []
            for name in batches:
                found = own_images.unpickle_batch(files[name], f"{source}/{name}").get("filenames")
                if not isinstance(found, list) or not all(isinstance(n, str) for n in found):
                    raise DataError(f"{source}/{name}: 'filenames' must be a list of texts")
                names[split] += [n.removesuffix(".png") for n in found]
        return names

    def _official(self, source: Path) -> dict[str, Part] | None:
        """The official files, verified and read by torchvision; None if they are others."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = source
            if source.is_file():
                if not check_integrity(source, self.torchvision.tgz_md5):
                    return None
                extract_archive(source, scratch)
                folder = Path(scratch) / self.torchvision.base_folder
            reader = type("Reader", (self.torchvision,), {"base_folder": folder.name})
            try:
                sets = {s: reader(folder.resolve().parent, train=s == "train") for s in SPLITS}
            except RuntimeError:  # missing, or another md5
                return None
        return {
            s: Part(found.data, np.array(found.targets, np.int64), f"{source}: {s} {{}}".format)
            for s, found in sets.items()
        }

    def _own_batches(self, source: Path) -> dict[str, Part]:
        """Batches that are not the official ones, read without trusting them."""
        files = own_images.batch_files(source, self.files)
        batches = {n: own_images.unpickle_batch(d, f"{source}/{n}") for n, d in files.items()}
        parts = {}
        for split, names in self.batches.items():
            arrays = [self._arrays(batches[name], f"{source}/{name}") for name in names]
            images, labels = (np.concatenate(some) for some in zip(*arrays, strict=True))
            origin = [
                f"{source}/{name}[{i}]"
                for name, (_, own) in zip(names, arrays, strict=True)
                for i in range(len(own))
            ]
            parts[split] = Part(images, labels, origin.__getitem__)
        file, key = self.torchvision.meta["filename"], self.torchvision.meta["key"]
        classes = batches[file].get(key)
        if not isinstance(classes, list) or tuple(map(str, classes)) != self.classes:
            raise DataError(f"{source}/{file}: {key!r} must list the classes in published order")
        return parts

    def _arrays(self, batch: Mapping[str, Any], where: str) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [n, 32, 32, 3] and labels int64 [n] of a batch."""
        images, values = batch.get("data"), batch.get(self.labels_key)
        height, width, channels = self.shape
        size = height * width * channels
        if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != size:
            raise DataError(f"{where}: 'data' must be an array uint8 [N, {size}]")
        if not isinstance(values, list) or not all(type(value) is int for value in values):
            raise DataError(f"{where}: {self.labels_key!r} must be a list of integers")
        # stored as all red values, then green, then blue, each row by row
        images = images.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        labels = np.array([min(max(value, -1), 2**31) for value in values], np.int64)  # no overflow
        check_images(images, labels, len(self.classes), where)
        return images, labels


KINDS = {
    "cifar10": Cifar(
        "CIFAR10",
        SHAPE,
        CLASSES_10,
        {"train": (5000,) * 10, "test": (1000,) * 10},
        CIFAR10Dataset,
        setting="cifar10_a005",
        hint="cifar-10-python.tar.gz, its batches, image folders or .npz files",
        torchvision=datasets.CIFAR10,
        labels_key="labels",
    ),
    "cifar100": Cifar(
        "CIFAR100",
        SHAPE,
        tuple(sorted(COARSE_OF_100)),
        {"train": (500,) * 100, "test": (100,) * 100},
        CIFAR100Dataset,
        setting="cifar100_a05",
        hint="cifar-100-python.tar.gz, its batches, image folders or .npz files",
        torchvision=datasets.CIFAR100,
        labels_key="fine_labels",
        coarse_of=COARSE_OF_100,
    ),
}
