"""Landmarks: annotations, where images lie, and samples that depend on nothing but their seed."""

import cv2
import numpy as np
import pytest
import torch
from landmark_files import TRAIN, image_id, rows, write_annotations, write_landmarks

from fedseg.datasets.landmarks import LandmarksDataset
from fedseg.errors import DataError
from fedseg.partition import NaturalPartition


@pytest.fixture
def root(tmp_path):
    return write_landmarks(tmp_path)


def test_what_it_holds(root):
    train = LandmarksDataset(root, num_classes=4)
    test = LandmarksDataset(root, "test", num_classes=4)
    expected, held_out = rows()
    assert len(train) == 12 and len(test) == 5
    assert train.users == [user for user, _, _ in expected] and test.users is None
    assert train.labels.tolist() == [label for *_, label in expected]
    assert train.labels.dtype == np.int64
    assert train.metainfo["classes"] == ("0", "1", "2", "3")
    for (path,), (_, image, _) in zip(train.files, expected, strict=True):
        assert path == str(root / "images" / image[0] / image[1] / image[2] / f"{image}.jpg")
    assert [path.endswith(f"{i}.jpg") for (path,), (i, _) in zip(test.files, held_out, strict=True)]
    clients = NaturalPartition("users")(train)
    assert {c: i.tolist() for c, i in clients.items()} == {
        "0": [0, 1, 2, 3],
        "1": [4, 5, 6, 7],
        "2": [8, 9, 10, 11],
    }


def test_checksum_is_of_users_images_and_classes(root):
    before = LandmarksDataset(root).split_checksum
    train, test = rows()
    train[3] = ("2", *train[3][1:])
    write_annotations(root, train, test)
    assert LandmarksDataset(root).split_checksum != before


def test_test_sample(root):
    """Shorter side 256, then the middle: computed here by hand."""
    dataset = LandmarksDataset(root, "test")
    sample = dataset[2]["inputs"]
    assert torch.equal(sample, dataset[2, 99]["inputs"])
    image = cv2.cvtColor(cv2.imread(dataset.files[2][0]), cv2.COLOR_BGR2RGB)
    large = cv2.resize(image, (round(120 * 256 / 90), 256))
    top, left = (256 - 224) // 2, (large.shape[1] - 224) // 2
    expected = large[top : top + 224, left : left + 224].transpose(2, 0, 1)
    assert np.abs(sample.numpy().astype(int) - expected).max() <= 2


# ---- what may be wrong


def fault(root, **options):
    with pytest.raises(DataError) as caught:
        LandmarksDataset(root, **{"num_classes": 4, **options})
    return str(caught.value)


def test_faulty_rows(root):
    content = (root / TRAIN).read_text()
    for line, message in (
        ("0,../../../etc/passwd,1", "'../../../etc/passwd'"),
        ("0,,1", "''"),
        (f"0,{image_id(0)},1", "twice"),
        (f"0,{image_id(90)},4", "not '4'"),
        (f"0,{image_id(90)},x", "not 'x'"),
        (f"0,{image_id(90)},{'9' * 5000}", "not '9999"),
        (f",{image_id(90)},1", "user_id"),
    ):
        (root / TRAIN).write_text(content + line + "\n")
        found = fault(root)
        assert message in found and f"{TRAIN}, line 14" in found


def test_faulty_files(root):
    for content, message in (
        (b"user,image_id,class\n0,abc,1\n", "no user_id"),
        (b"user_id,image,class\n0,abc,1\n", "image_id must be"),
        (b"user_id,image_id,class\n", "no image"),
        (b"\xff\xfe\x00", "CSV"),
    ):
        (root / TRAIN).write_bytes(content)
        found = fault(root)
        assert TRAIN in found and message in found
    (root / TRAIN).unlink()
    assert f"{TRAIN}: " in fault(root)


def test_both_selections(root):
    (root / "mini_gld_train_split.csv").write_text((root / TRAIN).read_text())
    assert "not both: move one away" in fault(root)


def test_missing_images(root):
    dataset = LandmarksDataset(root)
    for index in (3, 8):
        (root / "images" / dataset.files[index][0]).unlink()
    found = fault(root)
    assert f"2 of 12 images of {root / TRAIN}" in found and "fedseg prepare landmarks" in found
    assert image_id(3) in found and image_id(8) in found
