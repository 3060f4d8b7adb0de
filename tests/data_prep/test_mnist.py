"""MNIST's idx files in every form, and every fault reported."""

import gzip
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from image_files import idx_bytes, image_set, noise, write_mnist
from torchvision.datasets import mnist as torchvision_mnist
from torchvision.datasets.utils import calculate_md5

from fedseg.data_prep import mnist
from fedseg.data_prep.labeled import check
from fedseg.data_prep.mnist import PUBLISHED
from fedseg.errors import DataError


@pytest.fixture
def images():
    return image_set(10, shape=(28, 28, 1))


def test_published_counts():
    assert {split: sum(counts) for split, counts in PUBLISHED.counts.items()} == {
        "train": 60000,
        "test": 10000,
    }


def test_reads_the_four_files(tmp_path, images):
    for name, compressed in (("gz", True), ("plain", False)):
        data = PUBLISHED.read(write_mnist(tmp_path / name, images, compressed))
        for split, part in data.parts.items():
            np.testing.assert_array_equal(part.images, images[split][0])
            np.testing.assert_array_equal(part.labels, images[split][1])
            assert part.images.shape[1:] == (28, 28, 1) and part.labels.dtype == np.int64
        assert data.classes == tuple("0123456789") and not data.official
        with pytest.raises(DataError, match=r"train: .*class '0'"):
            check(data, PUBLISHED, tmp_path, unofficial=False)


def test_other_names_and_folders(tmp_path, images):
    assert PUBLISHED.find(tmp_path) is None
    folder = write_mnist(tmp_path / "raw", images, compressed=False)
    assert PUBLISHED.find(tmp_path) == folder
    assert PUBLISHED.find(folder) == folder
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("-idx", ".idx")))
    assert PUBLISHED.find(tmp_path) == folder
    assert len(PUBLISHED.read(folder).parts["train"].images) == 40


def test_official_files_are_known_by_their_md5(tmp_path, images, monkeypatch):
    write_mnist(tmp_path, images)
    md5 = [(file.name, calculate_md5(file)) for file in tmp_path.iterdir()]
    monkeypatch.setattr(mnist.MNIST, "resources", md5)
    data = PUBLISHED.read(tmp_path)
    assert data.official and "md5 verified" in data.source


def test_faulty_idx(tmp_path, images):
    sound = idx_bytes(noise(5, (28, 28)))
    labels = idx_bytes(np.zeros(5, np.uint8))
    for name, good, other in (
        ("train-images-idx3-ubyte", sound, labels),
        ("train-labels-idx1-ubyte", labels, sound),
    ):
        dims = int(name[-7])
        for data in (
            b"",
            good[:3],
            other,
            b"\0\0\x0d" + good[3:],  # floats
            good[:6],
            good[:-1],
            good + b"\0",
            good[:4] + b"\xff" * 4 * dims,
        ):
            write_mnist(tmp_path, images, compressed=False)
            (tmp_path / name).write_bytes(data)
            with pytest.raises(DataError, match=name):
                PUBLISHED.read(tmp_path)


def test_cut_short(tmp_path, images):
    write_mnist(tmp_path, images)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    shorter = gzip.compress(gzip.decompress(whole)[:-1000])
    for data in (whole[:-30], shorter, b"<html>not found</html>"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=path.name):
            PUBLISHED.read(tmp_path)


def test_larger_than_any_file_of_mnist(tmp_path, images, monkeypatch):
    write_mnist(tmp_path, images)
    monkeypatch.setattr(mnist, "LARGEST", 1000)
    with pytest.raises(DataError, match="1000 bytes"):
        PUBLISHED.read(tmp_path)


def test_files_that_do_not_belong_together(tmp_path, images):
    write_mnist(tmp_path, images)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.zeros(39, np.uint8))))
    with pytest.raises(DataError, match="39 labels"):
        PUBLISHED.read(tmp_path)
    labels.write_bytes(gzip.compress(idx_bytes(np.full(40, 10, np.uint8))))
    with pytest.raises(DataError, match="label 10"):
        check(PUBLISHED.read(tmp_path), PUBLISHED, tmp_path, unofficial=True)
    labels.unlink()
    with pytest.raises(DataError, match="train-labels-idx1-ubyte"):
        PUBLISHED.read(tmp_path)


def test_images_of_another_size(tmp_path):
    write_mnist(tmp_path, image_set(10, shape=(32, 32, 1)))
    with pytest.raises(DataError, match=r"\[32, 32, 1\].*\[28, 28, 1\]"):
        check(PUBLISHED.read(tmp_path), PUBLISHED, tmp_path, unofficial=True)


def test_download(tmp_path, monkeypatch):
    def fetch(url, download_root, filename, md5):
        if "first" in url:
            raise URLError("no route")
        (Path(download_root) / filename).touch()

    monkeypatch.setattr(torchvision_mnist, "download_and_extract_archive", fetch)
    monkeypatch.setattr(mnist.MNIST, "mirrors", ["https://first/", "https://second/"])
    monkeypatch.setattr(mnist.MNIST, "_load_data", lambda self: (None, None))
    exists = iter((False, True))  # before and after
    monkeypatch.setattr(mnist.MNIST, "_check_exists", lambda self: next(exists))
    folder = PUBLISHED.download(tmp_path)
    assert len(list(folder.iterdir())) == 4 and PUBLISHED.find(tmp_path) == folder

    monkeypatch.setattr(mnist.MNIST, "mirrors", ["https://first/"])
    monkeypatch.setattr(mnist.MNIST, "_check_exists", lambda self: False)
    with pytest.raises(DataError, match=f"{tmp_path}.*no route"):
        PUBLISHED.download(tmp_path)
