"""Tables and pictures of accuracy under corruptions, and the contact sheet."""

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep.corrupted_sets import make_corrupted
from data_prep.synthetic_shapes import CLASSES, labels_of, render_images
from fedseg.datasets import CIFAR10CDataset
from fedseg.datasets.arrays import write_images
from fedseg.datasets.corrupted import CORRUPTIONS
from fedseg.errors import ConfigError, DataError
from fedseg.report.corruptions import (
    KINDS,
    CorruptionAccuracies,
    contact_sheet,
    draw_corruptions,
    write_corruptions_csv,
)
from fedseg.report.drawing import COLORS

N = 3


def domains(**others) -> dict:
    table = {
        name: [90.0 - number - 10 * s for s in range(5)]
        for number, name in enumerate(reversed(CORRUPTIONS))  # the order is put right
    }
    corrupted = {"accuracy": 1.0, "corruptions": table, "severities": [1, 2, 3, 4, 5]}
    return {"test": {"accuracy": 95.5}, "corrupted": corrupted} | others


@pytest.fixture
def accuracies() -> CorruptionAccuracies:
    return CorruptionAccuracies.find(domains())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    indices = np.arange(N)
    train, test = (render_images(indices, split) for split in ("train", "test"))
    labels = labels_of(indices)
    write_images(folder, "CIFAR10", CLASSES, (train, labels), (test, labels))
    make_corrupted(folder, workers=1, progress=False)
    return folder


def picture(path: Path) -> np.ndarray:
    return cv2.imread(str(path))[..., ::-1]


def pixels(image: np.ndarray, color: str) -> int:
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((image == rgb).all(2).sum())


def test_means_and_order(accuracies):
    assert list(accuracies.table) == list(CORRUPTIONS)
    assert accuracies.table["gaussian_noise"] == [72, 62, 52, 42, 32]
    assert accuracies.mean("gaussian_noise") == 52
    assert accuracies.means() == [81, 71, 61, 51, 41]
    assert accuracies.overall == 61 and accuracies.clean == 95.5


def test_kinds_cover_the_corruptions():
    assert sum(count for _, count in KINDS) == len(CORRUPTIONS)


def test_none_without_a_corrupted_set():
    assert CorruptionAccuracies.find({"test": {"accuracy": 3.0}}) is None
    assert CorruptionAccuracies.find({}) is None


def test_missing_values_give_no_mean():
    corrupted = {"corruptions": {"fog": [50.0, None], "snow": [40.0, 30.0]}, "severities": [1, 5]}
    accuracies = CorruptionAccuracies.find(domains(corrupted=corrupted))
    assert list(accuracies.table) == ["snow", "fog"]
    assert accuracies.means() == [45, None]
    assert accuracies.mean("fog") is None and accuracies.overall is None


def test_another_number_of_values_than_severities():
    corrupted = {"corruptions": {"fog": [50.0]}, "severities": [1, 5]}
    with pytest.raises(DataError, match=r"corruptions\.fog"):
        CorruptionAccuracies.find(domains(corrupted=corrupted))


def test_csv_has_full_precision(accuracies, tmp_path):
    accuracies.table["fog"][0] = 100 / 3
    with open(write_corruptions_csv(accuracies, tmp_path / "a" / "c.csv"), newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["corruption", *(f"severity_{s}" for s in range(1, 6)), "mean"]
    assert [row[0] for row in rows[1:]] == [*CORRUPTIONS, "mean"]
    assert float(rows[1 + CORRUPTIONS.index("fog")][1]) == 100 / 3
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["c.csv"]


def test_picture_has_bars_as_long_as_the_accuracy_of_severity_5(accuracies, tmp_path):
    image = picture(draw_corruptions(accuracies, tmp_path / "c.png", "a run"))
    assert image.shape[0] < 1400 and image.shape[1] < 1400
    bars = (image == [int(COLORS[0][i : i + 2], 16) for i in (1, 3, 5)]).all(2)
    right = bars[:, image.shape[1] // 2 :]
    lengths = right.sum(1)
    starts = np.flatnonzero(np.diff((lengths > 0).astype(int)) == 1) + 1
    longest = np.array([lengths[y + 5] for y in starts])
    expected = np.array([accuracies.table[name][4] for name in CORRUPTIONS])
    assert len(starts) == 19
    assert np.allclose(longest / longest.max(), expected / expected.max(), atol=0.02)
    assert pixels(image, COLORS[1]) > 500  # the mean


def test_picture_of_a_few_without_a_clean_figure(tmp_path):
    accuracies = CorruptionAccuracies({"fog": [50.0, None], "snow": [0.0, 100.0]}, [2, 4])
    assert draw_corruptions(accuracies, tmp_path / "c.png").is_file()


def test_contact_sheet_shows_every_image(root, tmp_path):
    dataset = CIFAR10CDataset(root)
    sheet = picture(contact_sheet(dataset, tmp_path / "sheet.png", 1))
    narrower = picture(contact_sheet(CIFAR10CDataset(root, severities=[1]), tmp_path / "one.png"))
    assert sheet.shape[1] > 2 * narrower.shape[1]
    # every pixel of every image, three times as large: the last ones of two blocks
    images = dataset.gather(np.arange(95) * N + 1)[0].reshape(19, 5, 32, 32, 3)
    for image in (images[9, 4], images[18, 4], images[0, 0]):
        large = image.repeat(3, 0).repeat(3, 1)
        found = cv2.matchTemplate(np.ascontiguousarray(sheet), large, cv2.TM_SQDIFF)
        y, x = np.unravel_index(found.argmin(), found.shape)
        assert np.array_equal(sheet[y : y + 96, x : x + 96], large)


def test_contact_sheet_of_a_few(root, tmp_path):
    dataset = CIFAR10CDataset(root, corruptions=["fog"], severities=[1, 5])
    assert contact_sheet(dataset, tmp_path / "sheet.png").is_file()
    with pytest.raises(ConfigError, match="index"):
        contact_sheet(dataset, tmp_path / "none.png", N)
    assert not (tmp_path / "none.png").exists()
