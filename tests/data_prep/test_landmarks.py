"""Landmarks: what is verified, and how missing files are reported."""

import hashlib
import shlex
from dataclasses import replace

import pytest
from landmark_files import TEST, TRAIN, image_id, rows, write_annotations, write_landmarks

from fedseg.config.check import complete_config
from fedseg.data_prep.description import Selection
from fedseg.data_prep.image_sets import LANDMARKS
from fedseg.registry import DATASETS, build
from fedseg.runner.experiment import load_config


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
    for options in ((), ("--decode",)):
        out = prepare("landmarks", "--root", root, *options)
        assert "12 + 5 images of 4 classes, 3 users" in out
        fewer = "client_sampler.clients_per_round=3"
        assert f" train landmarks --dry-run --cfg-options data_root={root} {fewer}\n" in out
        assert (root / "splits" / "natural_users.png").stat().st_size > 1000


def test_the_next_command_names_another_folder_of_images(root, small_selection, prepare):
    (root / "images").rename(root / "photos")
    out = prepare("landmarks", "--root", root, "--images", "photos")
    words = shlex.split(out.strip().splitlines()[-1])
    options = words[words.index("--cfg-options") + 1 :]
    config = complete_config(load_config("landmarks", options=options))
    for loader in (config.train_dataloader, config.val_dataloader.test):
        assert len(build(DATASETS, loader.dataset, "dataset")) > 0
    assert config.client_sampler.clients_per_round == 3


def test_other_counts(root, small_selection, prepare, monkeypatch):
    for change, message in (
        (dict(users=4), f"{TRAIN}: users: 3"),
        (dict(train=13), f"{TRAIN}: training images: 12"),
        (dict(test=6), f"{TEST}: test images: 5"),
        (dict(classes=5), f"{TRAIN}: classes: 4"),
        (dict(classes=3), "class '3'"),
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


def test_everything_that_is_wrong_is_reported_at_once(root, prepare, tmp_path):
    train, test = rows()
    test += [(image_id(2), 1), (image_id(2000), 7)]  # a training image; an unknown class
    write_annotations(root, train, test)

    def path(number):
        image = image_id(number)
        return root / "images" / image[0] / image[1] / image[2] / f"{image}.jpg"

    path(0).unlink()
    path(1001).unlink()
    with open(path(5), "r+b") as file:
        file.truncate(file.seek(0, 2) // 2)
    path(6).write_bytes(b"")
    path(7).write_text("<html>not found</html>")
    listing = tmp_path / "missing.txt"
    told = prepare.fails("landmarks", "--root", root, "--unofficial", "--missing", listing)
    assert f"1 test images that are training images too: {image_id(2)}" in told
    assert (
        f"1 test images of an unknown class, which no training image has: {image_id(2000)}" in told
    )
    assert f"3 of 19 images missing below {root / 'images'}: {image_id(0)}.jpg" in told
    assert "3 images unreadable or truncated" in told
    assert all(image_id(i) in told for i in (5, 6, 7))
    assert "google-landmark" in told  # where to get them
    names = listing.read_text().splitlines()
    assert names == [f"{image_id(i)}.jpg" for i in (0, 1001, 2000)]


def test_damage_that_only_decoding_finds(root, prepare):
    image = image_id(4)
    path = root / "images" / image[0] / image[1] / image[2] / f"{image}.jpg"
    data = path.read_bytes()
    start = data.index(b"\xff\xc4") + 2  # a segment of code tables: its length, then the tables
    length = int.from_bytes(data[start : start + 2], "big")
    path.write_bytes(data[: start + 2] + b"\0" * (length - 2) + data[start + length :])
    prepare("landmarks", "--root", root, "--unofficial")
    told = prepare.fails("landmarks", "--root", root, "--unofficial", "--decode")
    assert "1 images unreadable or truncated" in told and image in told


def test_a_class_beyond_those_of_the_data_set(root, prepare):
    with open(root / TEST, "a") as file:
        file.write(f"{image_id(0)},60000000\n")
    told = prepare.fails("landmarks", "--root", root, "--unofficial")
    assert f"{root / TEST}" in told and "60000000" in told
