"""CIFAR-C from files of the official layout: order, reading, and what is wrong with files."""

from pathlib import Path

import numpy as np
import pytest

from fedseg.datasets import CIFAR10CDataset, CIFAR100CDataset
from fedseg.datasets.arrays import write_images
from fedseg.datasets.corrupted import CORRUPTIONS, SEVERITIES
from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.registry import DATASETS, build

N = 6
ROWS = N * len(SEVERITIES)


def prepared(root: Path, classes: int = 10) -> np.ndarray:
    """A prepared folder with N test images; returns their labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2 * N, 32, 32, 3), np.uint8)
    labels = rng.integers(0, classes, 2 * N)
    names = [f"class {i}" for i in range(classes)]
    coarse = np.arange(classes) % 5 if classes > 10 else None
    splits = ((images[own], labels[own]) for own in (slice(N), slice(N, None)))
    write_images(root, "CIFAR", names, *splits, coarse_labels=coarse)
    return labels[N:]


def value(corruption: int, severity: int, index: int) -> int:
    return 13 * corruption + 2 * severity + index % 2


def official(root: Path, labels: np.ndarray, folder: str = "corrupted") -> Path:
    """The official layout, every image in a gray that says where it stands."""
    place = root / folder
    place.mkdir()
    for number, name in enumerate(CORRUPTIONS):
        images = np.empty((ROWS, 32, 32, 3), np.uint8)
        for row in range(ROWS):
            images[row] = value(number, row // N + 1, row % N)
        np.save(place / f"{name}.npy", images)
    np.save(place / "labels.npy", np.tile(labels, 5).astype(np.uint8))
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    official(tmp_path, prepared(tmp_path))
    return tmp_path


def test_samples_are_ordered_by_corruption_severity_and_index(root):
    dataset = CIFAR10CDataset(root)
    assert len(dataset) == 19 * 5 * N == len(dataset.labels)
    assert dataset.group_size == N
    assert dataset.groups == [(name, s) for name in CORRUPTIONS for s in SEVERITIES]
    assert dataset.images.shape == (19 * 5 * N, 32, 32, 3) and dataset.images.dtype == np.uint8
    assert dataset.images.nbytes == 19 * 5 * N * 32 * 32 * 3
    images, labels = dataset.gather(np.arange(len(dataset)))
    assert images.flags.c_contiguous and labels.dtype == np.int64
    expected = [value(c, s, i) for c in range(19) for s in SEVERITIES for i in range(N)]
    assert (images == np.array(expected, np.uint8)[:, None, None, None]).all()
    assert np.array_equal(labels, np.tile(np.load(root / "test_labels.npy"), 19 * 5))
    assert dataset.classes == tuple(f"class {i}" for i in range(10))
    assert dataset.data_root == str(root)


def test_any_choice_of_samples(root):
    dataset = CIFAR10CDataset(root)
    everything, labels = dataset.gather(np.arange(len(dataset)))
    rng = np.random.default_rng(1)
    for chosen in (rng.permutation(len(dataset)), np.array([-1, 0]), np.array([], np.int64)):
        images, found = dataset.gather(chosen)
        assert np.array_equal(images, everything[chosen])
        assert np.array_equal(found, labels[chosen])
    assert np.array_equal(dataset.images[5:90:7], everything[5:90:7])
    assert np.array_equal(dataset[-3]["inputs"], everything[-3].transpose(2, 0, 1))
    with pytest.raises(IndexError):
        dataset.images[len(dataset)]


def test_some_corruptions_and_severities_in_the_official_order(root):
    dataset = CIFAR10CDataset(root, corruptions=["fog", "shot_noise"], severities=[5, 2])
    assert dataset.groups == [("shot_noise", 2), ("shot_noise", 5), ("fog", 2), ("fog", 5)]
    images, labels = dataset.gather(np.arange(len(dataset)))
    expected = [value(c, s, i) for c in (1, 9) for s in (2, 5) for i in range(N)]
    assert (images == np.array(expected, np.uint8)[:, None, None, None]).all()
    assert np.array_equal(labels, np.tile(np.load(root / "test_labels.npy"), 4))


def test_cifar100_c(tmp_path):
    official(tmp_path, prepared(tmp_path, 100))
    dataset = CIFAR100CDataset(tmp_path)
    assert dataset.coarse_labels.tolist() == [i % 5 for i in range(100)]
    with pytest.raises(DataError, match=r"dataset\.json: classes: 100, .*CIFAR10CDataset"):
        CIFAR10CDataset(tmp_path)


def test_a_file_of_another_length_shape_or_dtype(root):
    path = root / "corrupted" / "fog.npy"
    for images in (
        np.zeros((ROWS - 1, 32, 32, 3), np.uint8),
        np.zeros((ROWS, 32, 32, 3), np.float32),
        np.zeros((ROWS, 3, 32, 32), np.uint8),
    ):
        np.save(path, images)
        with pytest.raises(DataError, match=r"fog\.npy: .*\[30, 32, 32, 3\].*official files"):
            CIFAR10CDataset(root)
    assert len(CIFAR10CDataset(root, corruptions=["snow"])) == ROWS


def test_missing_files(root):
    place = root / "corrupted"
    (place / "fog.npy").unlink()
    with pytest.raises(DataError, match="corrupted: fog missing") as error:
        CIFAR10CDataset(root)
    assert not isinstance(error.value, MissingDataError)  # a part is there: that is a mistake
    assert len(CIFAR10CDataset(root, corruptions=["snow"])) == ROWS
    for path in place.glob("*.npy"):
        path.unlink()
    with pytest.raises(MissingDataError, match=r"corrupted: .*official files"):
        CIFAR10CDataset(root)


def test_wrong_labels(root):
    for labels, message in (
        (np.full(ROWS, 10), "label 10 of image 0"),
        (np.full(ROWS, -1), "label -1 of image 0"),
        (np.zeros(0, np.uint8), r"images must be uint8"),
        (np.zeros(ROWS + 5, np.uint8), rf"uint8 \[{ROWS + 5}, .* not uint8 \[{ROWS}, "),
        (np.zeros(ROWS, np.float32), r"labels\.npy: .*integers"),
        (np.arange(ROWS) // N, r"labels\.npy: .*severities"),
    ):
        np.save(root / "corrupted" / "labels.npy", labels)
        with pytest.raises(DataError, match=message):
            CIFAR10CDataset(root)
    (root / "corrupted" / "labels.npy").unlink()
    with pytest.raises(DataError, match=r"labels\.npy: is missing") as error:
        CIFAR10CDataset(root)
    assert not isinstance(error.value, MissingDataError)  # the images are there


def test_wrong_options(root):
    for field, values in (("corruptions", (["mist"], [])), ("severities", ([0], [], 6))):
        for value in values:
            config = {"type": "CIFAR10CDataset", "data_root": str(root), field: value}
            with pytest.raises(ConfigError, match=rf"dataset\.{field}"):
                build(DATASETS, config, "dataset")


def test_another_number_of_images_than_the_test_set(root):
    """A part of the images, or another test set: only the classes are those of the folder."""
    official(root, np.arange(N) % 10, "part")
    assert len(CIFAR10CDataset(root, "part")) == 19 * 5 * N
    for path in (root / "part").iterdir():
        rows = np.load(path)
        np.save(path, rows.reshape(5, N, *rows.shape[1:])[:, :2].reshape(10, *rows.shape[1:]))
    part = CIFAR10CDataset(root, "part", corruptions="fog")
    assert part.group_size == 2 and part.labels.tolist() == [0, 1] * 5
    assert part.gather(np.array([3]))[0][0, 0, 0, 0] == value(9, 2, 1)
