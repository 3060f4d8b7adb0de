"""The splits of Cityscapes have the benchmark's numbers, for every seed."""

from statistics import median

import numpy as np
from prepare_tools import presence, sizes

from fedseg.data_prep.paired_images import rendered_files
from fedseg.data_prep.split_rules import build_cityscapes
from fedseg.data_prep.street_sets import CITIES, CITYSCAPES
from fedseg.datasets import CityscapesDataset
from fedseg.datasets.templates import fields_of

# Clients, images, images per client (min, median, max), cities per client (min, max).
CITYSCAPES_TABLE = {
    "uniform": (146, 2975, (10, 15, 40), (5, 17)),
    "heterogeneous": (144, 2904, (10, 17.5, 45), (1, 1)),
    "class_imbalance": (142, 2970, (10, 15, 40), (1, 7)),
}
# Many classes of all frequencies; a class everywhere and nothing else; one rare class.
CONTENTS = (np.linspace(0.01, 1, 16) ** 2, [1.0], [1.0, 0.02])


def check_cityscapes(train, test, distribution):
    clients, images, spread, cities = CITYSCAPES_TABLE[distribution]
    held = [
        len({fields_of(CityscapesDataset.image_path, x)["domain"] for x, _ in c})
        for c in train.users.values()
    ]
    assert (len(train.users), len(train)) == (clients, images)
    assert (min(sizes(train)), median(sizes(train)), max(sizes(train))) == spread
    assert (min(held), max(held)) == cities
    assert {user: len(samples) for user, samples in test.users.items()} == {"test_user": 500}
    assert len({*train.samples, *test.samples}) == images + 500


def test_numbers_of_every_split_and_seed():
    images = rendered_files(CITYSCAPES)
    assert sum(map(len, images.values())) == 2975 + 500
    # the contents of images matter to class imbalance only
    cases = [(distribution, s, CONTENTS[0]) for distribution in CITYSCAPES_TABLE for s in range(6)]
    cases += [("class_imbalance", s, content) for content in CONTENTS[1:] for s in range(6)]
    for distribution, seed, content in cases:
        split = build_cityscapes(images, (distribution,), seed, presence(content, seed))
        check_cityscapes(*split, distribution)


def test_class_imbalance_separates_classes():
    frequencies = np.ones(len(CityscapesDataset.classes))
    frequencies[16] = 0.2
    content = presence(frequencies)
    images = rendered_files(CITYSCAPES)
    samples = [s for city in CITIES["train"] for s in images[city]]
    shown = {s for s, row in zip(samples, content(samples), strict=True) if row[16]}
    train, _ = build_cityscapes(images, ("class_imbalance",), 0, content)
    uniform, _ = build_cityscapes(images, ("uniform",), 0)

    def holders(split):
        return sum(bool(shown & set(held)) for held in split.users.values())

    assert holders(uniform) > 120 and holders(train) < 60
