"""MNIST's idx files: read as torchvision reads them, and every fault told."""

import gzip

import numpy as np
import pytest
import torchvision
from data_prep.labelled import check
from image_files import idx_bytes, image_set, noise, write_mnist

from data_prep import mnist
from data_prep.mnist import PUBLISHED, find_source, read, read_idx
from fedseg.errors import DataError


@pytest.fixture
def images():
    return image_set(10, shape=(28, 28, 1))


def test_published_counts():
    assert {split: sum(counts) for split, counts in PUBLISHED.counts.items()} == {
        "train": 60000,
        "test": 10000,
    }


@pytest.mark.parametrize("compressed", [True, False])
def test_reads_the_four_files(tmp_path, images, compressed):
    data = read(write_mnist(tmp_path, images, compressed))
    for split, part in data.parts.items():
        np.testing.assert_array_equal(part.images, images[split][0])
        np.testing.assert_array_equal(part.labels, images[split][1])
        assert part.images.shape[1:] == (28, 28, 1) and part.labels.dtype == np.int64
    assert data.classes == tuple("0123456789") and not data.official
    with pytest.raises(DataError, match="has 40 images, 4 of them of class '0'"):
        check(data, PUBLISHED, tmp_path, unofficial=False)


def test_torchvision_reads_the_same(tmp_path, images):
    write_mnist(tmp_path / "MNIST" / "raw", images, compressed=False)
    data = read(find_source(tmp_path))
    for split, part in data.parts.items():
        theirs = torchvision.datasets.MNIST(tmp_path, train=split == "train")
        np.testing.assert_array_equal(part.images[..., 0], theirs.data.numpy())
        np.testing.assert_array_equal(part.labels, theirs.targets.numpy())


def test_other_names_and_folders(tmp_path, images):
    assert find_source(tmp_path) is None
    folder = write_mnist(tmp_path / "raw", images, compressed=False)
    assert find_source(tmp_path) == folder
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("-idx", ".idx")))
    assert find_source(tmp_path) == folder
    assert len(read(folder).parts["train"].images) == 40


def test_official_files_are_known_by_their_md5(tmp_path, images, monkeypatch):
    write_mnist(tmp_path, images)
    md5 = [(file.name, mnist._md5(file)) for file in tmp_path.iterdir()]
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", md5)
    data = read(tmp_path)
    assert data.official and "md5 verified" in data.source


IMAGES = idx_bytes(noise(5, (28, 28)))


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "begins with 0x00000000"),
        (IMAGES[:3], "begins with 0x00000008"),
        (idx_bytes(np.zeros(5, np.uint8)), r"begins with 0x00000801, .* begins with 0x00000803"),
        (b"\0\0\x0d\x03" + IMAGES[4:], "begins with 0x00000d03"),  # floats
        (IMAGES[:10], "has 10 bytes"),
        (IMAGES[:-1], rf"has {len(IMAGES) - 1} bytes.*5 x 28 x 28\) asks for {len(IMAGES)}"),
        (IMAGES + b"\0", rf"has {len(IMAGES) + 1} bytes"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "asks for"),
    ],
)
def test_faulty_idx(data, message):
    with pytest.raises(DataError, match=message):
        read_idx(data, 3, "train-images-idx3-ubyte")


def test_cut_short(tmp_path, images):
    write_mnist(tmp_path, images)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    good = path.read_bytes()
    path.write_bytes(good[:-30])
    with pytest.raises(DataError, match=r"idx3-ubyte\.gz: is corrupt or cut short"):
        read(tmp_path)
    path.write_bytes(gzip.compress(gzip.decompress(good)[:-1000]))
    with pytest.raises(DataError, match=r"idx3-ubyte\.gz: has \d+ bytes, but its header"):
        read(tmp_path)
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"is corrupt or cut short"):
        read(tmp_path)


def test_larger_than_any_file_of_mnist(tmp_path, images, monkeypatch):
    write_mnist(tmp_path, images)
    monkeypatch.setattr(mnist, "LARGEST", 1000)
    with pytest.raises(DataError, match="unpacks to more than 1000 bytes"):
        read(tmp_path)


def test_files_that_do_not_belong_together(tmp_path, images):
    write_mnist(tmp_path, images)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.zeros(39, np.uint8))))
    with pytest.raises(DataError, match="40 train images, but 39 labels"):
        read(tmp_path)
    labels.write_bytes(gzip.compress(idx_bytes(np.full(40, 10, np.uint8))))
    with pytest.raises(DataError, match=r"label 10 .*out of range"):
        check(read(tmp_path), PUBLISHED, tmp_path, unofficial=True)
    labels.unlink()
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte: does not exist"):
        read(tmp_path)


def test_images_of_another_size(tmp_path):
    write_mnist(tmp_path, image_set(10, shape=(32, 32, 1)))
    with pytest.raises(DataError, match=r"shape \[32, 32, 1\], but MNIST has \[28, 28, 1\]"):
        check(read(tmp_path), PUBLISHED, tmp_path, unofficial=True)


def test_download_tries_every_mirror(tmp_path, monkeypatch):
    asked = []

    def fetch(url, root, name, md5):
        asked.append(url)
        if len(asked) == 1:
            raise OSError("no route")

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fetch)
    assert mnist.download(tmp_path) == tmp_path
    assert len(asked) == 5

    def fail(*_):
        raise OSError("no route")

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fail)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: cannot be downloaded"):
        mnist.download(tmp_path)
