"""Cityscapes: what must be on disk, and FedDrive's splits of it (:data:`RULES`).

The test set is the 500 validation images, user ``test_user``. The clients hold images of the 18
training cities; how many have how many images is the published table (:data:`SIZES`). The published
rule of ``class_imbalance`` is unknown, it is ours.
"""

from pathlib import Path

import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets import CityscapesDataset
from fedseg.errors import DataError
from fedseg.names import DISTRIBUTIONS
from fedseg.partition import Split

from .assignment import class_order, cut, fit_groups, rarest_class
from .disk import Findings, Sample, check_files, find_pairs
from .label_classes import Presence
from .streets import draws, key

Images = dict[str, list[Sample]]  # city -> samples

NAME = "cityscapes"
DATASET = CityscapesDataset
TEST_USERS = ("test_user",)
SUFFIXES = ("_leftImg8bit.png", "_gtFine_labelIds.png")
PUBLISHED_SIZE = (2048, 1024)  # width and height in pixels
SIZE = (512, 256)  # of rendered images: width and height in pixels

# City -> images, 2975 and 500 in all.
CITIES = {
    "train": {
        **{"aachen": 174, "bochum": 96, "bremen": 316, "cologne": 154, "darmstadt": 85},
        **{"dusseldorf": 221, "erfurt": 109, "hamburg": 248, "hanover": 196, "jena": 119},
        **{"krefeld": 99, "monchengladbach": 94, "strasbourg": 365, "stuttgart": 196},
        **{"tubingen": 144, "ulm": 95, "weimar": 142, "zurich": 122},
    },
    "val": {"frankfurt": 267, "lindau": 59, "munster": 174},
}

PARTS_PER_CITY = 8
# Images per client -> number of clients.
SIZES = {
    "uniform": {10: 32, 15: 49, 25: 40, 30: 8, 40: 17},
    "class_imbalance": {10: 26, 15: 49, 25: 39, 30: 12, 40: 16},
}
# Fewest and most cities per client.
SPREAD = {"uniform": (5, 17), "class_imbalance": (1, 7)}
RULES = {
    "uniform": (
        "images are shuffled and cut into clients of the published sizes; single images are then "
        "swapped until the clients have 5 to 17 cities"
    ),
    "heterogeneous": "each city is shuffled and cut into 8 equal clients; a remainder is left out",
    "class_imbalance": (
        "every image goes to the rarest class it shows (the class that the fewest images show); "
        "images are ordered by that class, rarest first, then by city (cities in random order), "
        "and cut into consecutive clients of the published sizes, in random order; single images "
        "are then swapped, within a class where possible, until the clients have 1 to 7 cities"
    ),
}


def names() -> Images:
    """File names of synthetic data: city -> samples in order of name."""
    return {
        city: [
            tuple(f"{part}/{city}/{city}_{i:06d}_000019{suffix}" for suffix in SUFFIXES)
            for i in range(count)
        ]
        for part, cities in CITIES.items()
        for city, count in cities.items()
    }


def verify(root: Path) -> Images:
    """All 2975 + 500 images, paired and readable: city -> samples in order of name.

    Raises:
        DataError: everything that is missing, unpaired, truncated or of unequal size, counted.
    """
    roots = root / CityscapesDataset.image_root, root / CityscapesDataset.label_root
    for folder in roots:
        if not folder.is_dir():
            raise DataError(
                f"{folder}: does not exist: extract leftImg8bit_trainvaltest.zip and "
                "gtFine_trainvaltest.zip of Cityscapes there, name the folder with --root, or "
                "render synthetic data with --synthetic"
            )
    findings = Findings(
        f"{root}: not the 2975 training and 500 validation images of Cityscapes",
        "Extract leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip again",
    )
    images: Images = {}
    for part, cities in CITIES.items():
        for city, count in cities.items():
            images[city] = find_pairs(roots, [f"{part}/{city}"] * 2, SUFFIXES, findings, count)
    samples = [s for group in images.values() for s in group]
    check_files(samples, roots, root, findings, PUBLISHED_SIZE)
    return images


def build(
    images: Images, distribution: str, seed: int, presence: Presence | None = None
) -> tuple[Split, Split]:
    """Train and test split of one distribution.

    Args:
        images: city -> samples, with Cityscapes' full numbers.
        presence: only for class imbalance, samples -> bool [samples, classes].
    """
    test = Split({TEST_USERS[0]: [s for city in CITIES["val"] for s in images[city]]})
    rng = generator_for(seed, "cityscapes clients", DISTRIBUTIONS.index(distribution))
    clients: Images = {}
    if distribution == "heterogeneous":
        for city in CITIES["train"]:
            order = rng.permutation(len(images[city])).tolist()
            parts = cut(order, [len(order) // PARTS_PER_CITY] * PARTS_PER_CITY)
            for number, part in enumerate(parts):
                clients[f"{city}{number}"] = [images[city][i] for i in part]
        return Split(clients), test
    samples = [s for city in CITIES["train"] for s in images[city]]
    cities = [CityscapesDataset.domain_of(image) for image, _ in samples]
    sizes = [size for size, times in SIZES[distribution].items() for _ in range(times)]
    sizes = rng.permutation(sizes).tolist()
    if distribution == "uniform":
        order, kinds = rng.permutation(len(samples)), np.zeros(len(samples))
    else:
        present = presence(samples)
        order, kinds = class_order(present, cities, rng), rarest_class(present)
    parts = fit_groups(cut(order.tolist(), sizes), cities, kinds, *SPREAD[distribution], rng)
    word = "client" if distribution == "uniform" else "user"
    return Split({f"{word}_{n}": [samples[i] for i in part] for n, part in enumerate(parts)}), test


def scene(image: str, seed: int) -> tuple[int, str, str, int]:
    """Town, weather, viewpoint and variant of a rendered image.

    Every city is a town of its own: one of the renderer's seven with its own materials and habits.
    One image in five shows the evening, the others noon; none shows rain.

    Raises:
        DataError: it is not ``<split>/<city>/<name>``.
    """
    if image.count("/") != 2:
        raise DataError(f"{image}: expected <split>/<city>/<name>_leftImg8bit.png")
    known = [city for cities in CITIES.values() for city in cities]
    city = CityscapesDataset.domain_of(image)
    number = known.index(city) if city in known else key("city", city) % 1_000_000
    weather = "CS" if draws("evening", seed, image).random() < 0.2 else "CN"
    return (2, 1, 6, 4, 3, 2, 5)[number % 7], weather, "A", number + 1
