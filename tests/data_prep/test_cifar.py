"""CIFAR in each of its forms: official files are known by their md5, all give the same images."""

import numpy as np
import pytest
import torchvision
from image_files import (
    image_set,
    published_as,
    write_archive,
    write_batches,
    write_folders,
    write_npz,
)

from fedseg.data_prep import cifar
from fedseg.data_prep.cifar import KINDS
from fedseg.data_prep.labeled import check
from fedseg.errors import DataError

CIFAR10, CIFAR100 = KINDS["cifar10"], KINDS["cifar100"]

# Coarse label of every class of CIFAR-100, as everybody's loader has it.
# fmt: off
COARSE = [4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13,
          15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4,
          17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9,
          13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13]
# fmt: on


@pytest.fixture
def images():
    return image_set(10)


def same(data, images):
    """The same images with the same labels, in the same order."""
    for split, part in data.parts.items():
        np.testing.assert_array_equal(part.images, images[split][0])
        np.testing.assert_array_equal(part.labels, images[split][1])


def test_published_classes_and_counts():
    classes = CIFAR100.classes
    assert len(classes) == 100 and list(classes) == sorted(classes)
    assert [CIFAR100.coarse_of[name] for name in classes] == COARSE
    assert len(CIFAR10.classes) == 10
    for kind, train, test in ((CIFAR10, 5000, 1000), (CIFAR100, 500, 100)):
        counts = kind.counts
        assert (sum(counts["train"]), sum(counts["test"])) == (50000, 10000)
        assert set(counts["train"]) == {train} and set(counts["test"]) == {test}


def test_every_form_gives_the_same_images(tmp_path):
    for kind, coarse in ((CIFAR10, None), (CIFAR100, tuple(COARSE))):
        classes = kind.classes
        images = image_set(len(classes), train=2, test=1)
        root = tmp_path / kind.name
        folder = write_batches(root / "b", kind, images)
        (root / "a").mkdir()
        own = published_as(kind, folder, images)  # as if these were the official files
        archive = write_archive(root / "a" / "some.tar.gz", kind, images)
        for source, known, official in (
            (archive, kind, False),
            (folder, kind, False),
            (write_npz(root / "n", images, classes), kind, False),
            (folder, own, True),
            (archive, published_as(kind, folder, images, archive), True),
        ):
            data = known.read(source, unofficial=not official)
            same(data, images)
            assert data.classes == classes and data.coarse_labels == coarse
            assert data.official == official
            assert type(data.parts["train"].name(1)) is str
        check(data, own, folder, unofficial=False)


def test_image_folders(tmp_path, images):
    data = CIFAR10.read(write_folders(tmp_path, images, CIFAR10.classes))
    for split, part in data.parts.items():
        pixels, labels = images[split]
        order = np.argsort(labels, kind="stable")  # class by class
        np.testing.assert_array_equal(part.images, pixels[order])
        np.testing.assert_array_equal(part.labels, labels[order])
    assert data.parts["test"].name(0).endswith(".png")


def test_files_that_differ_from_the_official_ones(tmp_path, images):
    folder = write_batches(tmp_path / "b", CIFAR10, images)
    kind = published_as(CIFAR10, folder, images)
    images["test"][0][3, 5, 5, 1] ^= 1  # one pixel
    write_batches(folder, CIFAR10, images)
    with pytest.raises(DataError, match=f"{folder}.*{kind.torchvision.tgz_md5}.*--unofficial"):
        kind.read(folder)
    same(kind.read(folder, unofficial=True), images)


def test_finds_the_source(tmp_path, images):
    assert CIFAR10.find(tmp_path) is None
    npz = write_npz(tmp_path / "npz", images, CIFAR10.classes)
    assert CIFAR10.find(npz) == npz
    folder = write_batches(tmp_path / CIFAR10.torchvision.base_folder, CIFAR10, images)
    assert CIFAR10.find(tmp_path) == folder
    assert CIFAR10.find(folder) == folder
    archive = write_archive(tmp_path / CIFAR10.torchvision.filename, CIFAR10, images)
    assert CIFAR10.find(tmp_path) == archive
    assert CIFAR100.find(tmp_path) is None
    with pytest.raises(DataError, match=r"CIFAR100.*cifar-100-python\.tar\.gz"):
        CIFAR100.read(tmp_path)


def test_download(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(cifar, "download_url", lambda *values: asked.append(values))
    assert CIFAR100.download(tmp_path) == tmp_path / "cifar-100-python.tar.gz"
    assert asked[0][3] == torchvision.datasets.CIFAR100.tgz_md5

    def fail(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(cifar, "download_url", fail)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz.*no route to host"):
        CIFAR10.download(tmp_path)
