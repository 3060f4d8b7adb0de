"""CIFAR in its four forms: the same images out of each, and every fault told."""

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torchvision
from data_prep.labelled import check, resolve_overlap
from image_files import (
    image_set,
    noise,
    published_as,
    write_archive,
    write_batches,
    write_folders,
    write_npz,
)

from data_prep import cifar
from data_prep.cifar import CIFAR10, CIFAR100, find_source, read
from fedseg.errors import DataError

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_cifar = pytest.mark.skipif(
    not (SHARED / "unpack_cifar10.py").is_file(),
    reason="needs CIFAR-10, ../shared/data/unpack_cifar10.py",
)

# Coarse label of every class of CIFAR-100, as everybody's loader has it.
# fmt: off
COARSE = [4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13,
          15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4,
          17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9,
          13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13]
# fmt: on


@pytest.fixture
def images():
    return image_set(10)


def same(data, images):
    """The same images with the same labels, in the same order."""
    for split, part in data.parts.items():
        np.testing.assert_array_equal(part.images, images[split][0])
        np.testing.assert_array_equal(part.labels, images[split][1])


def spoiled(tmp_path, kind, images, change):
    """What reading says of batches that ``change`` has altered."""
    folder = write_batches(tmp_path / "batches", kind, images, change)
    with pytest.raises(DataError) as caught:
        read(folder, kind, unofficial=True)
    return str(caught.value)


# ---- what is published


def test_superclasses_of_cifar100():
    classes = CIFAR100.published.classes
    assert len(classes) == 100 and list(classes) == sorted(classes)
    assert [CIFAR100.coarse_of[name] for name in classes] == COARSE


@pytest.mark.parametrize(
    "kind, classes", [(CIFAR10, (5000, 1000)), (CIFAR100, (500, 100))], ids=["10", "100"]
)
def test_published_counts(kind, classes):
    counts = kind.published.counts
    assert {sum(counts["train"]), sum(counts["test"])} == {50000, 10000}
    assert set(counts["train"]) == {classes[0]} and set(counts["test"]) == {classes[1]}


# ---- every form gives the same images


@pytest.mark.parametrize("kind", [CIFAR10, CIFAR100], ids=["10", "100"])
@pytest.mark.parametrize("form", ["archive", "batches", "npz"])
def test_forms(tmp_path, kind, form):
    classes = kind.published.classes
    images = image_set(len(classes), train=2, test=1)
    if form == "archive":
        source = write_archive(tmp_path / "some.tar.gz", kind, images)
    elif form == "batches":
        source = write_batches(tmp_path / "b", kind, images)
    else:
        source = write_npz(tmp_path / "n", images, classes)
    data = read(source, kind, unofficial=True)
    same(data, images)
    assert data.classes == classes
    assert data.coarse_labels == (None if kind is CIFAR10 else tuple(COARSE))
    assert not data.official


def test_image_folders(tmp_path, images):
    data = read(write_folders(tmp_path, images, CIFAR10.published.classes), CIFAR10)
    for split, part in data.parts.items():
        pixels, labels = images[split]
        order = np.argsort(labels, kind="stable")  # class by class
        np.testing.assert_array_equal(part.images, pixels[order])
        np.testing.assert_array_equal(part.labels, labels[order])
    assert data.parts["test"].name(0).endswith(".png")


def test_torchvision_reads_the_same_batches(tmp_path, images, monkeypatch):
    kind = CIFAR10
    folder = write_batches(tmp_path / kind.torchvision.base_folder, kind, images)
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", lambda *_: True)
    data = read(folder, kind, unofficial=True)
    for split, part in data.parts.items():
        theirs = torchvision.datasets.CIFAR10(tmp_path, train=split == "train")
        np.testing.assert_array_equal(part.images, theirs.data)
        assert part.labels.tolist() == theirs.targets
        assert list(data.classes) == theirs.classes


def test_npz_with_its_own_order_of_classes(tmp_path, images):
    classes = CIFAR10.published.classes
    turned = {s: (pixels, 9 - labels) for s, (pixels, labels) in images.items()}
    same(read(write_npz(tmp_path, turned, classes[::-1]), CIFAR10), images)


def test_npz_with_users(tmp_path, images):
    users = np.array([f"u{i % 3}" for i in range(40)])
    write_npz(tmp_path, images, CIFAR10.published.classes, users=users)
    data = read(tmp_path, CIFAR10)
    assert data.parts["train"].users == users.tolist()
    assert data.parts["test"].users is None


def test_finds_the_source(tmp_path, images):
    assert find_source(tmp_path, CIFAR10) is None
    npz = write_npz(tmp_path / "npz", images, CIFAR10.published.classes)
    assert find_source(npz, CIFAR10) == npz
    folder = write_batches(tmp_path / CIFAR10.torchvision.base_folder, CIFAR10, images)
    assert find_source(tmp_path, CIFAR10) == folder
    assert find_source(folder, CIFAR10) == folder
    archive = write_archive(tmp_path / CIFAR10.archive, CIFAR10, images)
    assert find_source(tmp_path, CIFAR10) == archive
    assert find_source(tmp_path, CIFAR100) is None
    with pytest.raises(DataError, match=r"holds no CIFAR100: expected cifar-100-python.tar.gz"):
        read(tmp_path, CIFAR100)


# ---- official or not


def test_the_official_files_are_known_by_their_md5(tmp_path, images):
    folder = write_batches(tmp_path / "b", CIFAR10, images)
    kind = published_as(CIFAR10, folder, images)
    data = read(folder, kind)
    assert data.official and "md5 verified" in data.source
    check(data, kind.published, folder, unofficial=False)
    archive = write_archive(tmp_path / "again.tar.gz", CIFAR10, images)
    assert read(archive, kind).official
    # one pixel
    changed = {s: (pixels.copy(), labels) for s, (pixels, labels) in images.items()}
    changed["test"][0][3, 5, 5, 1] ^= 1
    write_batches(folder, CIFAR10, changed)
    with pytest.raises(DataError, match=r"another md5: test_batch \(\w{32}\).*--unofficial"):
        read(folder, kind)
    same(read(folder, kind, unofficial=True), changed)


def test_another_number_of_images(tmp_path, images):
    data = read(write_npz(tmp_path, images, CIFAR10.published.classes), CIFAR10)
    with pytest.raises(DataError, match=r"has 40 images, 4 of them of class 'airplane'.*5000"):
        check(data, CIFAR10.published, tmp_path, unofficial=False)
    check(data, CIFAR10.published, tmp_path, unofficial=True)


def test_another_shape(tmp_path, images):
    data = read(write_npz(tmp_path, images, CIFAR10.published.classes), CIFAR10)
    part = replace(data.parts["test"], images=noise(20, (28, 28, 1)))
    with pytest.raises(DataError, match=r"test: images have shape \[28, 28, 1\]"):
        check(replace(data, parts={**data.parts, "test": part}), CIFAR10.published, tmp_path, True)


# ---- images in both splits


@pytest.fixture
def overlap(images):
    images["test"][0][7] = images["train"][0][30]
    images["train"][0][31] = images["train"][0][30]  # a copy within train
    return images


def test_shared_images_are_refused_by_name(tmp_path, overlap):
    folder = write_npz(tmp_path, overlap, CIFAR10.published.classes)
    data = read(folder, CIFAR10)
    with pytest.raises(DataError, match=r"1 test images .*train\.npz\[3[01]\] = .*test\.npz\[7\]"):
        resolve_overlap(data, "refuse", folder)


def test_shared_images_in_folders_are_named_by_file(tmp_path, overlap):
    classes = CIFAR10.published.classes
    folder = write_folders(tmp_path, overlap, classes)
    with pytest.raises(DataError, match=r"train/\w+/003[01]\.png = .*test/\w+/0007\.png"):
        resolve_overlap(read(folder, CIFAR10), "refuse", folder)


def test_shared_images_can_be_kept_or_dropped(tmp_path, overlap):
    data = read(write_npz(tmp_path, overlap, CIFAR10.published.classes), CIFAR10)
    kept, count = resolve_overlap(data, "keep", tmp_path)
    assert kept is data and count == 1
    dropped, count = resolve_overlap(data, "drop", tmp_path)
    train = dropped.parts["train"]
    assert count == 0 and len(train.images) == len(train.labels) == 38
    assert "2 training images dropped" in dropped.source
    assert train.name(30).endswith("train.npz[32]")
    assert resolve_overlap(dropped, "refuse", tmp_path)[1] == 0
    np.testing.assert_array_equal(dropped.parts["test"].images, overlap["test"][0])


def test_shared_images_of_the_official_files_are_counted(tmp_path, overlap):
    folder = write_batches(tmp_path / "b", CIFAR10, overlap)
    data = read(folder, published_as(CIFAR10, folder, overlap))
    kept, count = resolve_overlap(data, "refuse", folder)
    assert kept is data and count == 1


# ---- archives


@pytest.mark.parametrize(
    "name, kind",
    [
        ("../outside", tarfile.REGTYPE),
        ("cifar-10-batches-py/../../outside", tarfile.REGTYPE),
        ("/absolute", tarfile.REGTYPE),
        ("cifar-10-batches-py/data_batch_1", tarfile.SYMTYPE),
        ("link", tarfile.LNKTYPE),
        ("fifo", tarfile.FIFOTYPE),
    ],
)
def test_member_that_leads_outside(tmp_path, images, name, kind):
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    (tmp_path / "in").mkdir()
    path = write_archive(tmp_path / "in" / "a.tar.gz", CIFAR10, images, members=[(member, b"")])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=r"member .*lead outside: do not trust this archive"):
        read(path, CIFAR10, unofficial=True)
    assert sorted(tmp_path.rglob("*")) == before  # nothing was unpacked


@pytest.mark.parametrize("keep", [0, 100, 0.3, 0.9])
def test_archive_cut_short(tmp_path, images, keep):
    path = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep > 1 else keep * len(data))])
    with pytest.raises(DataError, match=r"corrupt or cut short .*c58f30108f718f92721af3b95e74349a"):
        read(path, CIFAR10, unofficial=True)


def test_archive_with_a_flipped_bit(tmp_path, images):
    path = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"corrupt|another md5|damaged"):
        read(path, CIFAR10)


def test_no_archive_at_all(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_text("<html>not found</html>")
    with pytest.raises(DataError, match="corrupt or cut short"):
        read(path, CIFAR10)


def test_archive_of_the_other_data_set(tmp_path):
    images = image_set(100, train=1, test=1)
    path = write_archive(tmp_path / "a.tar.gz", CIFAR100, images)
    with pytest.raises(DataError, match=r"has no data_batch_1, .*Python version of CIFAR10"):
        read(path, CIFAR10)


def test_archive_with_a_file_twice(tmp_path, images):
    twin = tarfile.TarInfo("elsewhere/test_batch")
    path = write_archive(tmp_path / "a.tar.gz", CIFAR10, images, members=[(twin, b"x")])
    with pytest.raises(DataError, match="two files test_batch"):
        read(path, CIFAR10)


def test_archive_with_a_huge_member(tmp_path, images, monkeypatch):
    path = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    monkeypatch.setattr(cifar, "LARGEST_MEMBER", 1000)
    with pytest.raises(DataError, match="no batch is that large"):
        read(path, CIFAR10)


# ---- what is in the batches


def test_malicious_batch(tmp_path, images):
    mark = tmp_path / "was_here"

    def change(contents):
        command = f"touch {mark}".encode()
        contents["data_batch_3"] = b"cposix\nsystem\n(S'" + command + b"'\ntR."

    assert "data_batch_3: the pickle asks for posix.system" in spoiled(
        tmp_path, CIFAR10, images, change
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("data", noise(8).reshape(8, -1)[:, :-1], r"test_batch: 'data' has shape \[8, 3071\]"),
        ("data", noise(8), r"'data' has shape \[8, 32, 32, 3\]"),
        ("data", noise(8).reshape(8, -1).astype(np.float32), r"dtype 'f4', images must be uint8"),
        ("data", [1, 2], "no array 'data'"),
        ("labels", [0] * 7, "20 images in 'data', but 7 in 'labels'"),
        ("labels", [0] * 19 + [10], "label 10, which is out of range: CIFAR10 has 0 to 9"),
        ("labels", [-1] * 20, "label -1, which is out of range"),
        ("labels", [10**30] * 20, "out of range"),
        ("labels", [0.5] * 20, "no list 'labels' of whole numbers"),
        ("labels", None, "no list 'labels'"),
    ],
)
def test_faulty_batch(tmp_path, images, key, value, message):
    def change(contents):
        contents["test_batch"][key] = value

    told = spoiled(tmp_path, CIFAR10, images, change)
    assert re.search(message, told) and "test_batch" in told


def test_faulty_class_names(tmp_path, images):
    def change(contents):
        contents["batches.meta"]["label_names"][3] = "unicorn"

    assert "unknown class 'unicorn'" in spoiled(tmp_path, CIFAR10, images, change)

    def swap(contents):
        contents["batches.meta"]["label_names"].reverse()

    assert "in another order" in spoiled(tmp_path, CIFAR10, images, swap)

    def drop(contents):
        contents["batches.meta"] = {}

    assert "no list 'label_names'" in spoiled(tmp_path, CIFAR10, images, drop)


def test_faulty_superclasses(tmp_path):
    images = image_set(100, train=2, test=1)

    def torn(contents):
        contents["train"]["coarse_labels"][0] = 19 - contents["train"]["coarse_labels"][0]

    assert "is in superclass" in spoiled(tmp_path, CIFAR100, images, torn)

    def other(contents):
        for name in ("train", "test"):
            contents[name]["coarse_labels"] = [0] * len(contents[name]["coarse_labels"])

    assert "superclasses other than" in spoiled(tmp_path, CIFAR100, images, other)


# ---- image folders


def test_folder_of_an_unknown_class(tmp_path, images):
    classes = [*CIFAR10.published.classes[:9], "unicorn"]
    with pytest.raises(
        DataError, match=r"train: unknown class 'unicorn': CIFAR10 has 10, airplane"
    ):
        read(write_folders(tmp_path, images, classes), CIFAR10)


def test_empty_class_folder(tmp_path, images):
    write_folders(tmp_path, images, CIFAR10.published.classes)
    for file in (tmp_path / "test" / "frog").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"test/frog: holds no \*\.png"):
        read(tmp_path, CIFAR10)


def test_faulty_pictures(tmp_path, images):
    write_folders(tmp_path, images, CIFAR10.published.classes)
    file = sorted((tmp_path / "train" / "cat").iterdir())[1]
    good = file.read_bytes()
    file.write_bytes(good[:-40])
    with pytest.raises(DataError, match=rf"{file.name}: the file is truncated"):
        read(tmp_path, CIFAR10)
    cv2.imwrite(str(file), noise(1, (32, 31, 3))[0])
    with pytest.raises(DataError, match=rf"{file.name}: is 31x32"):
        read(tmp_path, CIFAR10)
    cv2.imwrite(str(file), noise(1, (32, 32, 3))[0].astype(np.uint16) * 200)
    with pytest.raises(DataError, match=rf"{file.name}: must be a PNG of 8 bits"):
        read(tmp_path, CIFAR10)


# ---- .npz files


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(images=noise(40).astype(np.float32)), r"must be uint8 \[N, 32, 32, 3\], not float32"),
        (dict(images=noise(40).transpose(0, 3, 1, 2)), r"not uint8 \[40, 3, 32, 32\]"),
        (dict(labels=np.zeros(39, np.int64)), "40 images, but 39 labels"),
        (dict(labels=np.zeros((40, 1), np.int64)), r"integers \[N\], not int64 \[40, 1\]"),
        (dict(labels=np.zeros(40)), r"integers \[N\], not float64"),
        (dict(labels=np.full(40, 10)), "label 10 is out of range: 10 classes have labels 0 to 9"),
        (dict(labels=np.full(40, -1)), "label -1 is out of range"),
        (dict(classes=np.array(["cat", "unicorn"])), "unknown class 'unicorn'"),
        (dict(classes=np.array(["cat", "cat"])), "a class is listed twice"),
        (dict(classes=np.array(["cat"], object)), "cannot be read as plain arrays"),
        (dict(users=np.array(["a"])), r"40 images, but 'users' \[1\]"),
    ],
)
def test_faulty_npz(tmp_path, images, change, message):
    write_npz(tmp_path, images, CIFAR10.published.classes, **change)
    with pytest.raises(DataError, match=rf"train\.npz: .*{message}"):
        read(tmp_path, CIFAR10)


def test_npz_without_a_key_or_a_twin(tmp_path, images):
    write_npz(tmp_path, images, CIFAR10.published.classes)
    np.savez(tmp_path / "test.npz", images=noise(3), labels=np.zeros(3, int))
    with pytest.raises(DataError, match=r"test\.npz: has no classes; it has"):
        read(tmp_path, CIFAR10)
    (tmp_path / "test.npz").unlink()
    with pytest.raises(DataError, match=r"test\.npz: does not exist"):
        read(tmp_path, CIFAR10)


@pytest.mark.parametrize("where", [0.0, 0.5, 0.99])
def test_npz_cut_short(tmp_path, images, where):
    write_npz(tmp_path, images, CIFAR10.published.classes)
    path = tmp_path / "train.npz"
    path.write_bytes(path.read_bytes()[: int(where * path.stat().st_size)])
    with pytest.raises(DataError, match=r"train\.npz: cannot be read"):
        read(tmp_path, CIFAR10)


# ---- the network


def test_download_without_a_network(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fail)
    with pytest.raises(DataError, match=r"cannot be downloaded from https://www\.cs\.toronto\.edu"):
        cifar.download(tmp_path, CIFAR10)


def test_download_is_checked(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        torchvision.datasets.utils, "download_url", lambda *values: asked.append(values)
    )
    assert cifar.download(tmp_path, CIFAR100) == tmp_path / "cifar-100-python.tar.gz"
    assert asked[0][3] == "eb9058c3a382ffc7106e4002c42a8d85"


# ---- the real thing


@needs_cifar
def test_the_real_cifar10(tmp_path):
    unpack = [sys.executable, str(SHARED / "unpack_cifar10.py"), str(tmp_path), "--npz"]
    subprocess.run(
        unpack, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    data = read(tmp_path, CIFAR10)
    check(data, CIFAR10.published, tmp_path, unofficial=False)
    train, test = data.parts["train"], data.parts["test"]
    assert (len(train.images), len(test.images)) == (50000, 10000)
    assert np.bincount(train.labels).tolist() == [5000] * 10
    counts = [np.bincount(train.images[..., c].ravel(), minlength=256) for c in range(3)]
    shares, values = np.array(counts) / counts[0].sum(), np.arange(256) / 255
    mean = shares @ values
    std = np.sqrt(shares @ values**2 - mean**2)
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(std, [0.2470, 0.2435, 0.2616], atol=5e-5)
    # none in both splits, so nothing has to be told of this set
    assert resolve_overlap(data, "refuse", tmp_path)[1] == 0
