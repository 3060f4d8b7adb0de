"""Images in the order of a file, whatever the order of their source."""

from pathlib import Path

import numpy as np
import pytest
from image_files import image_set, write_npz

from fedseg.data_prep.cifar import CIFAR10
from fedseg.data_prep.image_order import write_order
from fedseg.datasets import CIFAR10Dataset

SHIPPED = Path(__file__).parents[2] / "docs" / "runs" / "clients" / "cifar10_order.npz"


@pytest.fixture
def images():
    return image_set(10, train=6, test=2)


def shuffled(images, seed):
    """The same images in another order."""
    rng = np.random.default_rng(seed)
    parts = {}
    for split, (pixels, labels) in images.items():
        places = rng.permutation(len(labels))
        parts[split] = (pixels[places], labels[places])
    return parts


@pytest.fixture
def order(tmp_path, images):
    file = tmp_path / "order.npz"
    write_order(file, {split: pixels for split, (pixels, _) in images.items()})
    return file


def test_images_of_any_order_come_into_that_of_the_file(tmp_path, images, order, prepare):
    checksums = set()
    for seed in (0, 1):
        source = write_npz(tmp_path / f"source{seed}", shuffled(images, seed), CIFAR10.classes)
        root = tmp_path / f"root{seed}"
        prepare("cifar", "--root", root, "--npz", source, "--order", order)
        for split in ("train", "test"):
            prepared = CIFAR10Dataset(root, split)
            np.testing.assert_array_equal(prepared.images, images[split][0])
            np.testing.assert_array_equal(prepared.labels, images[split][1])
        checksums.add(CIFAR10Dataset(root).split_checksum)
    assert len(checksums) == 1


def test_prepared_images_in_another_order_are_not_taken_for_these(tmp_path, images, order, prepare):
    source = write_npz(tmp_path / "source", shuffled(images, 0), CIFAR10.classes)
    words = ("cifar", "--root", tmp_path / "root", "--npz", source)
    prepare(*words)
    assert "or another order: give --overwrite" in prepare.fails(*words, "--order", order)
    prepare(*words, "--order", order, "--overwrite")
    assert "is prepared already, verified" in prepare(*words, "--order", order)


def test_an_order_of_other_images_is_refused(tmp_path, images, order, prepare):
    others = {**images, "train": (255 - images["train"][0], images["train"][1])}
    source = write_npz(tmp_path / "source", others, CIFAR10.classes)
    words = ("cifar", "--root", tmp_path / "root", "--npz", source, "--order")
    assert f"--order: {order}: is of other train images" in prepare.fails(*words, order)
    for name, text in {"missing.npz": None, "text.npz": "train"}.items():
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        assert f"--order: {file}: is no file of an order" in prepare.fails(*words, file)


def test_the_order_of_the_published_runs_has_every_image_once():
    with np.load(SHIPPED) as order:
        counts = {split: len(np.unique(order[split])) for split in order.files}
        assert {split: len(order[split]) for split in order.files} == counts
    assert counts == {"train": 50_000, "test": 10_000}
