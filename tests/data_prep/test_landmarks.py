"""Landmarks: what is verified, and how missing files are reported."""

import hashlib
from dataclasses import replace

import pytest
from landmark_files import TEST, TRAIN, image_id, rows, write_annotations, write_landmarks

from fedseg.data_prep.facts import Selection
from fedseg.data_prep.landmarks import LANDMARKS


@pytest.fixture
def root(tmp_path):
    return write_landmarks(tmp_path / "root")


@pytest.fixture
def small_selection(monkeypatch):
    """The published counts are those of the small root."""
    selection = Selection("small", 3, 12, 5, 4)
    monkeypatch.setitem(LANDMARKS, TRAIN, selection)
    return selection


def test_published_counts():
    whole, mini = LANDMARKS.values()
    assert (whole.users, whole.train, whole.test, whole.classes) == (1262, 164172, 19526, 2028)
    assert (mini.users, mini.train, mini.classes) == (233, 23080, 203)


def test_sound(root, small_selection, prepare):
    out = prepare("landmarks", "--root", root)
    assert "12 + 5 images of 4 classes, 3 users" in out
    fewer = "client_sampler.clients_per_round=3"
    assert f" train landmarks --dry-run --cfg-options data_root={root} {fewer}\n" in out
    assert (root / "splits" / "natural_users.png").stat().st_size > 1000


def test_other_counts(root, small_selection, prepare, monkeypatch):
    for change, message in (
        (dict(users=4), f"{TRAIN}: users: 3"),
        (dict(train=13), f"{TRAIN}: training images: 12"),
        (dict(test=6), f"{TEST}: test images: 5"),
        (dict(classes=5), f"{TRAIN}: classes: 4"),
        (dict(classes=3), "not '3'"),
        (dict(md5={"train": "0" * 32}), "0" * 32),
    ):
        monkeypatch.setitem(LANDMARKS, TRAIN, replace(small_selection, **change))
        told = prepare.fails("landmarks", "--root", root)
        assert message in told
        assert "--unofficial" in told or "classes" in change
        prepare("landmarks", "--root", root, "--unofficial")
    md5 = hashlib.md5((root / TRAIN).read_bytes()).hexdigest()
    monkeypatch.setitem(LANDMARKS, TRAIN, replace(small_selection, md5={"train": md5}))
    prepare("landmarks", "--root", root)


def test_test_images_of_training_or_of_an_unknown_class(root, prepare):
    train, test = rows()
    words = ("landmarks", "--root", root, "--unofficial")
    write_annotations(root, train, [*test, (image_id(2), 1)])
    told = prepare.fails(*words)
    assert f"1 test images are training images too, such as {image_id(2)}" in told
    write_annotations(root, train, [*test, (image_id(2000), 7)])
    assert f"that no training image has, such as {image_id(2000)} (class 7)" in prepare.fails(
        *words
    )


def test_missing_images_are_listed(root, prepare, tmp_path):
    for number in (0, 1001):
        image = image_id(number)
        (root / "images").joinpath(*image[:3], f"{image}.jpg").unlink()
    listing = tmp_path / "missing.txt"
    told = prepare.fails("landmarks", "--root", root, "--unofficial", "--missing", listing)
    assert f"2 of 17 images are missing below {root / 'images'}, such as {image_id(0)}.jpg" in told
    assert "google-landmark" in told  # where to get them
    names = listing.read_text().splitlines()
    assert names == [f"{image_id(number)}.jpg" for number in (0, 1001)]


def test_a_class_beyond_those_of_the_data_set(root, prepare):
    with open(root / TEST, "a") as file:
        file.write(f"{image_id(0)},60000000\n")
    told = prepare.fails("landmarks", "--root", root, "--unofficial")
    assert f"{root / TEST}" in told and "60000000" in told
