"""Files of CIFAR-C: made, verified, interrupted and continued; and what is refused."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from prepare_tools import snapshot, tool

from fedseg.data_prep import corrupted_sets
from fedseg.data_prep.corrupted_sets import CorruptedFiles, make_corrupted
from fedseg.data_prep.corruptions import corrupt
from fedseg.data_prep.image_sets import CorruptionOptions
from fedseg.data_prep.synthetic_shapes import CLASSES, labels_of, render_images
from fedseg.datasets import CIFAR10CDataset
from fedseg.datasets.arrays import write_images
from fedseg.datasets.corrupted import CORRUPTIONS, FOLDER, SEVERITIES
from fedseg.errors import DataError

N = 7
FEW = ["brightness", "gaussian_noise", "fog"]
FILES = ["gaussian_noise.npy", "fog.npy", "brightness.npy"]  # in the official order


def write_root(root: Path, seed: int = 0, classes=CLASSES) -> None:
    indices = np.arange(N)
    train, test = (render_images(indices, split, seed) for split in ("train", "test"))
    labels = labels_of(indices)
    write_images(root, "CIFAR10", classes, (train, labels), (test, labels[::-1]))


def make(root: Path, folder=FOLDER, corruptions=None, workers=1, **more) -> CorruptedFiles:
    return make_corrupted(root, CorruptionOptions(folder, corruptions, workers=workers, **more))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_root(tmp_path)
    return tmp_path


def test_official_layout(root):
    outcome = make(root)
    place = root / "corrupted"
    assert outcome.folder == place and outcome.images == N
    assert outcome.made == list(CORRUPTIONS) and not outcome.kept and not outcome.official
    names = {path.name for path in place.iterdir()}
    assert names == {"labels.npy", "made.json", *(f"{name}.npy" for name in CORRUPTIONS)}
    record = json.loads((place / "made.json").read_text())
    stored = json.loads((root / "dataset.json").read_text())
    assert record["tool"] == "tools/prepare_cifar_c.py" and record["seed"] == 0
    assert record["test_sha256"] == stored["splits"]["test"]["sha256"] and record["images"] == N
    assert set(record["files"]) == names - {"made.json"}
    labels = np.load(place / "labels.npy")
    assert labels.dtype == np.uint8
    assert np.array_equal(labels, np.tile(np.load(root / "test_labels.npy"), 5))
    test = np.load(root / "test_images.npy")
    for name in CORRUPTIONS:
        images = np.load(place / f"{name}.npy")
        assert images.shape == (5 * N, 32, 32, 3) and images.dtype == np.uint8
        for severity in SEVERITIES:
            rows = slice((severity - 1) * N, severity * N)
            assert np.array_equal(images[rows], corrupt(test, name, severity))
    dataset = CIFAR10CDataset(root)
    assert dataset.generated == CORRUPTIONS and len(dataset) == 19 * 5 * N


def test_neither_processes_nor_chunks_change_a_byte(root, monkeypatch):
    make(root, "one", FEW)
    make(root, "two", FEW, workers=2)
    monkeypatch.setattr(corrupted_sets, "CHUNK", 3)
    make(root, "three", FEW)
    assert snapshot(root / "one") == snapshot(root / "two") == snapshot(root / "three")
    make(root, "seed", FEW, seed=1)
    assert snapshot(root / "seed")["fog.npy"] != snapshot(root / "one")["fog.npy"]


def test_what_is_there_is_kept_and_more_is_added(root):
    make(root, corruptions=["fog"])
    before = (root / "corrupted" / "fog.npy").stat().st_mtime_ns
    outcome = make(root, corruptions=FEW)
    assert (outcome.kept, outcome.made) == (["fog"], ["gaussian_noise", "brightness"])
    assert (root / "corrupted" / "fog.npy").stat().st_mtime_ns == before
    assert make(root, corruptions=FEW).made == []


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_it_leaves_whole_files_only_and_goes_on(root, workers, monkeypatch):
    make(root, "whole", FEW)
    real = corrupted_sets.write_text

    def write_text(path, text, **options):
        if "fog.npy" in text:  # its images are written, its checksum is about to be
            raise KeyboardInterrupt
        real(path, text, **options)

    monkeypatch.setattr(corrupted_sets, "write_text", write_text)
    with pytest.raises(KeyboardInterrupt):
        make(root, corruptions=FEW, workers=workers)
    place = root / "corrupted"
    assert {path.name for path in place.iterdir()} == {
        "labels.npy",
        "made.json",
        "gaussian_noise.npy",
    }
    monkeypatch.undo()
    outcome = make(root, corruptions=FEW)
    assert (outcome.kept, outcome.made) == (["gaussian_noise"], ["fog", "brightness"])
    assert snapshot(place) == snapshot(root / "whole")


def test_killed_between_any_two_writes_it_goes_on(root):
    make(root, "whole", FEW)
    place = root / "corrupted"
    place.mkdir()
    (place / "fog.npy.0a1b2c3d.tmp").write_bytes(b"half a file")
    # noted, but not yet in place
    whole = root / "whole"
    shutil.copy(whole / "made.json", place)
    shutil.copy(whole / "labels.npy", place)
    outcome = make(root, corruptions=FEW)
    assert outcome.made == ["gaussian_noise", "fog", "brightness"]
    assert snapshot(place) == snapshot(whole)


def test_official_files_are_verified_and_never_touched(root):
    place = root / "corrupted"
    place.mkdir()
    np.save(place / "labels.npy", np.tile(np.load(root / "test_labels.npy"), 5).astype(np.uint8))
    np.save(place / "fog.npy", np.full((5 * N, 32, 32, 3), 7, np.uint8))
    before = snapshot(place)
    outcome = make(root, corruptions=FEW)
    assert outcome.official == ["fog"] and outcome.made == ["gaussian_noise", "brightness"]
    after = snapshot(place)
    assert all(after[name] == data for name, data in before.items())
    assert CIFAR10CDataset(root, corruptions=FEW).generated == ("gaussian_noise", "brightness")
    # other images: ours go, official ones stay
    outcome = make(root, corruptions=FEW, seed=1)
    assert outcome.replaced == ["gaussian_noise.npy", "brightness.npy"]
    assert snapshot(place)["fog.npy"] == before["fog.npy"]


def test_official_files_of_the_wrong_length_or_dtype(root):
    make(root, corruptions=["snow"])
    path = root / "corrupted" / "fog.npy"
    for length in (5 * N - 1, 5 * N + 1, N):
        np.save(path, np.zeros((length, 32, 32, 3), np.uint8))
        with pytest.raises(DataError, match=rf"fog\.npy: .*{length}"):
            make(root)
        assert path.is_file()
    np.save(path, np.zeros((5 * N, 32, 32, 3), np.float64))
    with pytest.raises(DataError, match=r"fog\.npy: .*uint8"):
        make(root)


def test_labels_of_official_files(root):
    place = root / "corrupted"
    place.mkdir()
    np.save(place / "fog.npy", np.zeros((5 * N, 32, 32, 3), np.uint8))
    with pytest.raises(DataError, match=r"labels\.npy: .*fog\.npy"):  # they are missing
        make(root)
    np.save(place / "labels.npy", np.tile(np.load(root / "test_labels.npy")[::-1], 5))
    with pytest.raises(DataError, match=r"labels\.npy: .*test set"):
        make(root)


def test_a_file_that_was_changed_since(root):
    make(root, corruptions=["fog"])
    path = root / "corrupted" / "fog.npy"
    images = np.load(path)
    images[3, 4, 5] ^= 1
    np.save(path, images)
    with pytest.raises(DataError, match=r"fog\.npy: .*made\.json"):
        make(root, corruptions=["fog"])
    path.unlink()
    assert make(root, corruptions=["fog"]).made == ["fog"]


def test_official_files_put_over_made_ones_are_not_deleted(root):
    make(root, corruptions=FEW)
    path = root / "corrupted" / "fog.npy"
    np.save(path, np.full((5 * N, 32, 32, 3), 7, np.uint8))
    before = snapshot(path.parent)
    with pytest.raises(DataError, match=r"fog\.npy: .*made\.json"):
        make(root, corruptions=FEW, seed=1)
    assert snapshot(path.parent) == before


def test_another_test_set_has_its_files_made_again(root):
    make(root, corruptions=FEW)
    before = snapshot(root / "corrupted")
    write_root(root, seed=5)
    outcome = make(root, corruptions=FEW)
    assert outcome.replaced == FILES and len(outcome.made) == 3
    assert snapshot(root / "corrupted")["fog.npy"] != before["fog.npy"]


def test_a_limit_takes_its_share_of_every_class(root):
    make(root, "all", ["fog"])
    outcome = make(root, corruptions=["fog"], limit=3)
    assert outcome.images == 3
    everything = np.load(root / "all" / "fog.npy").reshape(5, N, 32, 32, 3)
    few = np.load(root / "corrupted" / "fog.npy").reshape(5, 3, 32, 32, 3)
    labels = np.load(root / "test_labels.npy")
    by_class = sorted(range(N), key=lambda i: labels[i])
    chosen = sorted(by_class[i * N // 3] for i in range(3))
    assert np.array_equal(few, everything[:, chosen])
    labels = labels[chosen]
    assert np.array_equal(np.load(root / "corrupted" / "labels.npy"), np.tile(labels, 5))
    assert CIFAR10CDataset(root, corruptions=["fog"]).group_size == 3
    # without a limit, everything is made anew
    outcome = make(root, corruptions=["fog"])
    assert outcome.replaced == ["fog.npy"] and outcome.images == N
    assert snapshot(root / "corrupted") == snapshot(root / "all")
    assert make(root, "more", ["fog"], limit=100).images == N


def test_what_cannot_be_corrupted(root, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"dataset\.json"):
        make(tmp_path / "nowhere")
    images = np.random.default_rng(0).integers(0, 256, (4, 28, 28, 1), np.uint8)
    labels = np.zeros(2, np.int64)
    other = tmp_path / "mnist"
    write_images(other, "MNIST", ["a"], (images[:2], labels), (images[2:], labels))
    with pytest.raises(DataError, match=r"test_images\.npy: .*\[28, 28, 1\]"):
        make(other)
    # a full disk is reported before the work
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 1000))
    with pytest.raises(DataError, match=r"corrupted: .*1,000 B"):
        make(root)


# ---- the command


def test_makes_then_verifies(root, prepare):
    arguments = ("cifar_c", root, "--corruptions", "fog", "snow", "--workers", 1)
    told = prepare(*arguments)
    assert "2 made: snow, fog" in told and f"5 severities of {N} images" in told
    assert "official files" in told
    assert (root / "corrupted" / "contact_sheet.png").is_file()
    assert "2 made earlier, verified: snow, fog" in prepare(*arguments)
    assert tool("cifar_c", "--corruptions", "haze") == 2


@pytest.mark.parametrize(
    "option", [("--seed", -1), ("--seed", 99999999999999999999), ("--limit", 0)]
)
def test_an_option_out_of_range_is_told_before_anything_is_made(root, prepare, option):
    message = prepare.fails("cifar_c", root, "--corruptions", "fog", *option)
    assert option[0] in message and str(option[1]) in message
    assert not (root / "corrupted").exists()
