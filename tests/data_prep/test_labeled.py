"""Labeled image sets: compared with what is published; images in both splits."""

from dataclasses import replace

import numpy as np
import pytest
from image_files import image_set, noise, publish, write_batches, write_folders, write_npz

from fedseg.data_prep.image_files import read_images
from fedseg.data_prep.image_sets import CIFAR10
from fedseg.data_prep.labeled import check, resolve_overlap
from fedseg.errors import DataError

CLASSES = CIFAR10.classes


@pytest.fixture
def overlap():
    images = image_set(10)
    images["test"][0][7] = images["train"][0][30]
    images["train"][0][31] = images["train"][0][30]  # a copy within train
    return images


def test_another_number_or_shape_of_images(tmp_path):
    data = read_images(CIFAR10, write_npz(tmp_path, image_set(10), CLASSES))
    with pytest.raises(DataError, match=r"train: .*'airplane'.*5000.*--unofficial"):
        check(data, CIFAR10, tmp_path, unofficial=False)
    check(data, CIFAR10, tmp_path, unofficial=True)
    part = replace(data.parts["test"], images=noise(20, (28, 28, 1)))
    with pytest.raises(DataError, match=r"test: .*\[28, 28, 1\]"):
        check(replace(data, parts={**data.parts, "test": part}), CIFAR10, tmp_path, True)


def test_shared_images_are_refused_by_name(tmp_path, overlap):
    folder = write_npz(tmp_path / "npz", overlap, CLASSES)
    with pytest.raises(DataError, match=r"train\.npz\[3[01]\] = .*test\.npz\[7\]"):
        resolve_overlap(read_images(CIFAR10, folder), "refuse", folder)
    folder = write_folders(tmp_path / "png", overlap, CLASSES)
    with pytest.raises(DataError, match=r"train/\w+/003[01]\.png = .*test/\w+/0007\.png"):
        resolve_overlap(read_images(CIFAR10, folder), "refuse", folder)


def test_shared_images_can_be_kept_or_dropped(tmp_path, overlap):
    users = np.array([f"u{i}" for i in range(40)])
    data = read_images(CIFAR10, write_npz(tmp_path, overlap, CLASSES, users=users))
    kept, count = resolve_overlap(data, "keep", tmp_path)
    assert kept is data and count == 1
    dropped, count = resolve_overlap(data, "drop", tmp_path)
    train = dropped.parts["train"]
    assert count == 0 and len(train.images) == len(train.labels) == 38
    assert train.users == [f"u{i}" for i in range(40) if i not in (30, 31)]
    assert dropped.source.startswith(data.source) and dropped.source != data.source
    assert train.name(30).endswith("train.npz[32]")
    assert resolve_overlap(dropped, "refuse", tmp_path)[1] == 0
    np.testing.assert_array_equal(dropped.parts["test"].images, overlap["test"][0])


def test_shared_images_of_the_official_files_are_counted(tmp_path, overlap, monkeypatch):
    folder = write_batches(tmp_path / "b", CIFAR10, overlap)
    data = read_images(publish(monkeypatch, CIFAR10, folder, overlap), folder)
    kept, count = resolve_overlap(data, "refuse", folder)
    assert kept is data and count == 1
