"""tools/prepare_landmarks.py: what is verified, and how missing files are reported."""

import hashlib
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from landmark_files import TEST, TRAIN, image_id, rows, write_annotations, write_landmarks

from fedseg.data_prep import landmarks

TOOL = Path(__file__).parents[2] / "tools" / "prepare_landmarks.py"


@pytest.fixture
def root(tmp_path):
    return write_landmarks(tmp_path / "root")


def tool(capsys, *arguments):
    """Exit code, standard output and error of a run in this process."""
    before, sys.argv = sys.argv, [TOOL.name, *map(str, arguments)]
    try:
        runpy.run_path(str(TOOL), run_name="__main__")
    except SystemExit as end:
        return end.code, *capsys.readouterr()
    finally:
        sys.argv = before


def failure(capsys, *arguments):
    code, _, error = tool(capsys, *arguments)
    assert code == 2 and "Traceback" not in error
    return error


@pytest.fixture
def small_variant(monkeypatch):
    """The published counts are those of the small root."""
    variant = landmarks.Variant("small", 3, 12, 5, 4, {})
    monkeypatch.setitem(landmarks.VARIANTS, TRAIN, variant)
    return variant


def test_published_counts():
    whole, mini = landmarks.VARIANTS.values()
    assert (whole.users, whole.train, whole.test, whole.classes) == (1262, 164172, 19526, 2028)
    assert (mini.users, mini.train, mini.classes) == (233, 23080, 203)


def test_sound(root, small_variant, capsys):
    for options in ((), ("--decode",)):
        code, out, _ = tool(capsys, "--root", root, *options)
        assert code == 0
        assert "12 + 5 images of 4 classes, 3 users" in out
        assert f" train landmarks --dry-run --cfg-options data_root={root}\n" in out
        assert (root / "splits" / "natural_users.png").stat().st_size > 1000


def test_other_counts(root, small_variant, capsys, monkeypatch):
    for change, message in (
        (dict(users=4), f"{TRAIN}: 3 users"),
        (dict(train=13), f"{TRAIN}: 12 training images"),
        (dict(test=6), f"{TEST}: 5 test images"),
        (dict(classes=5), f"{TRAIN}: 4 classes"),
        (dict(classes=3), "class '3'"),
        (dict(md5={"train": "0" * 32}), "0" * 32),
    ):
        monkeypatch.setitem(landmarks.VARIANTS, TRAIN, replace(small_variant, **change))
        told = failure(capsys, "--root", root)
        assert message in told
        assert "--unofficial" in told or "classes" in change
        assert tool(capsys, "--root", root, "--unofficial")[0] == 0


def test_published_md5(root, small_variant, capsys, monkeypatch):
    md5 = hashlib.md5((root / TRAIN).read_bytes()).hexdigest()
    monkeypatch.setitem(landmarks.VARIANTS, TRAIN, replace(small_variant, md5={"train": md5}))
    assert tool(capsys, "--root", root)[0] == 0


def test_everything_that_is_wrong_is_reported_at_once(root, capsys, tmp_path):
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
    told = failure(capsys, "--root", root, "--unofficial", "--missing", listing)
    assert f"1 test images that are training images too: {image_id(2)}" in told
    assert (
        f"1 test images of an unknown class, which no training image has: {image_id(2000)}" in told
    )
    assert f"1 of 12 train images missing below {root / 'images'}: {image_id(0)}.jpg" in told
    assert "2 of 7 test images missing" in told
    assert "3 images unreadable or truncated" in told
    assert all(image_id(i) in told for i in (5, 6, 7))
    assert "google-landmark" in told  # where to get them
    names = listing.read_text().splitlines()
    assert names == [f"{image_id(i)}.jpg" for i in (0, 1001, 2000)]


def test_damage_that_only_decoding_finds(root, capsys):
    image = image_id(4)
    path = root / "images" / image[0] / image[1] / image[2] / f"{image}.jpg"
    data = path.read_bytes()
    start = data.index(b"\xff\xc4") + 2  # a segment of code tables: its length, then the tables
    length = int.from_bytes(data[start : start + 2], "big")
    path.write_bytes(data[: start + 2] + b"\0" * (length - 2) + data[start + length :])
    assert tool(capsys, "--root", root, "--unofficial")[0] == 0
    told = failure(capsys, "--root", root, "--unofficial", "--decode")
    assert "1 images unreadable or truncated" in told and image in told


def test_an_id_that_leads_outside(root, capsys):
    with open(root / TEST, "a") as file:
        file.write("../../outside,1\n")
    assert "'../../outside' is no image id" in failure(capsys, "--root", root, "--unofficial")


def test_a_class_beyond_those_of_the_data_set(root, capsys):
    with open(root / TEST, "a") as file:
        file.write(f"{image_id(0)},60000000\n")
    told = failure(capsys, "--root", root, "--unofficial")
    assert f"{root / TEST}" in told and "60000000" in told


def test_no_files(tmp_path, capsys):
    assert f"{TRAIN}: does not exist" in failure(capsys, "--root", tmp_path)
