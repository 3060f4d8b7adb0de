"""Labeled images in each form: sound files are read; damaged, unknown or malicious ones refused."""

import gzip
import io
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import cv2
import numpy as np
import pytest
import torchvision
from faults import Payload
from image_files import (
    idx_bytes,
    image_set,
    noise,
    publish,
    write_archive,
    write_batches,
    write_folders,
    write_mnist,
    write_npz,
)
from torchvision.datasets import mnist as torchvision_mnist
from torchvision.datasets.utils import calculate_md5

from fedseg.data_prep import image_files
from fedseg.data_prep.image_files import (
    check,
    find_images,
    find_source,
    read_images,
    resolve_overlap,
)
from fedseg.data_prep.image_sets import CIFAR10, CIFAR100, MNIST
from fedseg.errors import DataError, is_system_error

CLASSES = CIFAR10.classes

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


@pytest.fixture
def gray():
    return image_set(10, shape=(28, 28, 1))


def assert_same(data, images):
    """The same images with the same labels, in the same order."""
    for split, part in data.parts.items():
        np.testing.assert_array_equal(part.images, images[split][0])
        np.testing.assert_array_equal(part.labels, images[split][1])
        assert part.labels.dtype == np.int64 and isinstance(part.name(1), str)


def refused(published, source, message):
    with pytest.raises(DataError, match=message):
        read_images(published, source)


def test_published_classes_and_counts():
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)
    assert list(CIFAR100.coarse_labels) == COARSE
    for published, classes, train, test in (
        (CIFAR10, 10, 50000, 10000),
        (CIFAR100, 100, 50000, 10000),
        (MNIST, 10, 60000, 10000),
    ):
        counts = published.counts
        assert len(published.classes) == len(counts["train"]) == len(counts["test"]) == classes
        assert (sum(counts["train"]), sum(counts["test"])) == (train, test)
    assert set(CIFAR10.counts["train"]) == {5000} and set(CIFAR100.counts["test"]) == {100}


# ---- CIFAR's official files


@pytest.mark.parametrize("published", [CIFAR10, CIFAR100], ids=lambda p: p.name)
def test_every_form_of_cifar_gives_the_same_images(tmp_path, monkeypatch, published):
    images = image_set(len(published.classes), train=2, test=1)
    folder = write_batches(tmp_path / "b", published, images)
    (tmp_path / "a").mkdir()
    archive = write_archive(tmp_path / "a" / "some.tar.gz", published, images)
    known = publish(monkeypatch, published, folder, images, archive)
    npz = write_npz(tmp_path / "n", images, published.classes)
    before = sorted(tmp_path.rglob("*"))
    for source, official in ((archive, True), (folder, True), (npz, False)):
        data = read_images(known, source)
        assert_same(data, images)
        assert data.official == official
        check(data, known, source, unofficial=False)
    assert sorted(tmp_path.rglob("*")) == before  # an archive is unpacked elsewhere


def test_a_pickle_that_is_not_the_official_one_is_never_opened(tmp_path, images, monkeypatch):
    mark, archives = tmp_path / "was_here", tmp_path / "archives"
    folder = write_batches(tmp_path / "b", CIFAR10, images)
    publish(monkeypatch, CIFAR10, folder, images)
    (folder / "data_batch_3").write_bytes(pickle.dumps(Payload(mark)))
    archives.mkdir()
    md5 = torchvision.datasets.CIFAR10.tgz_md5
    for source in (folder, write_archive(archives / "a.tar.gz", CIFAR10, images)):
        refused(CIFAR10, source, rf"{source}: .*{md5}.*never opened.*train\.npz.*<class>/\*\.png")
    assert not mark.exists()
    pickle.loads((folder / "data_batch_3").read_bytes())  # it would have been
    assert mark.exists()


def test_damaged_archives_and_those_of_other_things(tmp_path, images, monkeypatch):
    archive = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    publish(monkeypatch, CIFAR10, tmp_path / "to_pack", images, archive)
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 16
    for damaged in (b"", whole[:-1], bytes(flipped), b"<html>not found</html>"):
        archive.write_bytes(damaged)
        refused(CIFAR10, archive, r"a\.tar\.gz: .*another md5")
    archive.write_bytes(whole)
    refused(CIFAR100, archive, r"a\.tar\.gz: .*another md5")


def test_finds_the_source(tmp_path, images):
    kind = torchvision.datasets.CIFAR10
    assert find_images(CIFAR10, tmp_path) is None
    npz = write_npz(tmp_path / "npz", images, CLASSES)
    assert find_images(CIFAR10, npz) == npz
    folder = write_batches(tmp_path / kind.base_folder, CIFAR10, images)
    assert find_images(CIFAR10, tmp_path) == find_images(CIFAR10, folder) == folder
    archive = write_archive(tmp_path / kind.filename, CIFAR10, images)
    assert find_images(CIFAR10, tmp_path) == archive
    assert find_images(CIFAR100, tmp_path) is None
    refused(CIFAR100, tmp_path, r"CIFAR100.*cifar-100-python\.tar\.gz")


def test_download(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(image_files, "download_url", lambda *values: calls.append(values))
    archive = find_source(CIFAR100, tmp_path, download=True)
    assert archive == tmp_path / "cifar-100-python.tar.gz"
    assert calls[0][3] == torchvision.datasets.CIFAR100.tgz_md5


# ---- MNIST's idx files


def test_reads_the_four_files_whatever_they_are_called(tmp_path, gray, monkeypatch):
    assert find_images(MNIST, tmp_path) is None
    for name, compressed in (("gz", True), ("raw", False)):
        folder = write_mnist(tmp_path / name, gray, compressed)
        data = read_images(MNIST, folder)
        assert_same(data, gray)
        assert not data.official
    assert find_images(MNIST, tmp_path) == find_images(MNIST, folder) == folder
    md5 = [(file.name, calculate_md5(file)) for file in folder.iterdir()]
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", md5)
    data = read_images(MNIST, folder)
    assert data.official and "md5 verified" in data.source
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("-idx", ".idx")))
    assert find_images(MNIST, tmp_path) == folder
    assert_same(read_images(MNIST, folder), gray)


def test_faulty_idx(tmp_path, gray, monkeypatch):
    sound = idx_bytes(noise(5, (28, 28)))
    labels = idx_bytes(np.zeros(5, np.uint8))
    for name, whole, other in (
        ("train-images-idx3-ubyte", sound, labels),
        ("train-labels-idx1-ubyte", labels, sound),
    ):
        dims = int(name[-7])
        for data in (
            b"",
            whole[:3],
            other,
            b"\0\0\x0d" + whole[3:],  # floats
            whole[:6],
            whole[:-1],
            whole + b"\0",
            whole[:4] + b"\xff" * 4 * dims,
        ):
            write_mnist(tmp_path, gray, compressed=False)
            (tmp_path / name).write_bytes(data)
            refused(MNIST, tmp_path, name)
    compressed = tmp_path / "gz" / "train-images-idx3-ubyte.gz"
    whole = write_mnist(compressed.parent, gray).joinpath(compressed.name).read_bytes()
    shorter = gzip.compress(gzip.decompress(whole)[:-1000])
    for data in (whole[:-30], shorter, b"<html>not found</html>"):
        compressed.write_bytes(data)
        refused(MNIST, compressed.parent, compressed.name)
    compressed.write_bytes(whole)
    monkeypatch.setattr(image_files, "LARGEST_MEMBER", 1000)
    refused(MNIST, compressed.parent, compressed.name)


def test_idx_files_that_do_not_belong_together(tmp_path, gray):
    write_mnist(tmp_path, gray)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.zeros(39, np.uint8))))
    refused(MNIST, tmp_path, "39 labels")
    labels.write_bytes(gzip.compress(idx_bytes(np.full(40, 10, np.uint8))))
    with pytest.raises(DataError, match="label 10"):
        check(read_images(MNIST, tmp_path), MNIST, tmp_path, unofficial=True)
    labels.unlink()
    refused(MNIST, tmp_path, "train-labels-idx1-ubyte")


def test_download_of_mnist(tmp_path, gray, monkeypatch):
    """torchvision fetches the files and tries its mirrors."""
    kind = torchvision.datasets.MNIST
    monkeypatch.setattr(kind, "_load_data", lambda self: (None, None))
    with monkeypatch.context() as patch:
        patch.setattr(
            kind, "download", lambda self: write_mnist(Path(self.raw_folder), gray, False)
        )
        folder = find_source(MNIST, tmp_path / "a", download=True)
    assert len(list(folder.iterdir())) == 4 and find_images(MNIST, tmp_path / "a") == folder

    def fail(*_, **__):
        raise URLError("no route")

    monkeypatch.setattr(torchvision_mnist, "download_and_extract_archive", fail)
    with pytest.raises(DataError, match=f"{tmp_path}.*no route"):
        find_source(MNIST, tmp_path, download=True)


# ---- image folders


def test_image_folders(tmp_path, images):
    data = read_images(CIFAR10, write_folders(tmp_path, images, CLASSES))
    by_class = {}
    for split, (pixels, labels) in images.items():
        order = np.argsort(labels, kind="stable")
        by_class[split] = pixels[order], labels[order]
    assert_same(data, by_class)
    assert data.parts["test"].name(0).endswith(".png")


def test_faulty_image_folders(tmp_path, images):
    write_folders(tmp_path / "unknown", images, [*CLASSES[:9], "unicorn"])
    refused(CIFAR10, tmp_path / "unknown", r"train: .*'unicorn'")
    root = write_folders(tmp_path / "root", images, CLASSES)
    file = sorted((root / "train" / "cat").iterdir())[1]
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    refused(CIFAR10, root, file.name)
    cv2.imwrite(str(file), noise(1, (32, 31, 3))[0])
    refused(CIFAR10, root, rf"{file.name}: .*\[32, 31, 3\]")
    cv2.imwrite(str(file), noise(1, (32, 32, 3))[0].astype(np.uint16) * 200)
    refused(CIFAR10, root, rf"{file.name}: .*8 bits")
    file.write_bytes(whole)
    (file.parent / ".DS_Store").write_bytes(b"of a file manager")
    for folder in ("train/__MACOSX", "test/@eaDir", "train/cat/@eaDir"):
        (root / folder).mkdir()
    file = file.rename(file.with_suffix(".PNG"))
    assert len(read_images(CIFAR10, root).parts["train"].labels) == 40
    (file.parent / "more.jpg").write_bytes(whole)
    refused(CIFAR10, root, r"cat/more\.jpg: is not a PNG image: convert it")
    (file.parent / "more.jpg").unlink()
    for file in (root / "test" / "frog").iterdir():
        file.unlink()
    # classes come from training
    assert 6 not in read_images(CIFAR10, root).parts["test"].labels
    for file in (root / "train" / "frog").iterdir():
        file.unlink()
    refused(CIFAR10, root, "train/frog")
    for split in ("train", "test"):  # as Kaggle has it
        (tmp_path / "kaggle" / split).mkdir(parents=True)
        (tmp_path / "kaggle" / split / "1.png").write_bytes(whole)
    refused(CIFAR10, tmp_path / "kaggle", r"train: has no image .*<class>/\*\.png")


# ---- .npz files


def test_npz_with_its_own_order_of_classes_and_users(tmp_path, images):
    turned = {s: (pixels, 9 - labels) for s, (pixels, labels) in images.items()}
    users = np.array([f"u{i % 3}" for i in range(40)])
    data = read_images(CIFAR10, write_npz(tmp_path, turned, CLASSES[::-1], users=users))
    assert_same(data, images)
    assert data.parts["train"].users == users.tolist() and data.parts["test"].users is None


def test_faulty_npz(tmp_path, images, monkeypatch):
    for change, message in (
        (dict(images=noise(40).astype(np.float32)), "images .*float32"),
        (dict(images=noise(40)[0]), r"images .*\[32, 32, 3\]"),
        (dict(labels=np.zeros(39, np.int64)), r"labels .*\[39\]"),
        (dict(labels=np.zeros((40, 1), np.int64)), r"labels .*\[40, 1\]"),
        (dict(labels=np.zeros(40)), "labels .*float64"),
        (dict(labels=np.full(40, 10)), "label 10"),
        (dict(labels=np.full(40, -1)), "label -1"),
        (dict(classes=np.array(["cat", "unicorn"])), "'unicorn'"),
        (dict(classes=np.array(["cat", "cat"])), "class"),
        (dict(classes=np.array(["cat"], object)), "plain arrays"),
        (dict(users=np.array(["a"])), "'users'"),
        (dict(users=np.array([b"a"] * 40)), "'users' .*S1"),
        (dict(users=np.full(40, np.nan)), "'users' .*float64"),
    ):
        write_npz(tmp_path, images, CLASSES, **change)
        refused(CIFAR10, tmp_path, rf"train\.npz: .*{message}")
    write_npz(tmp_path, images, CLASSES)
    monkeypatch.setattr(image_files, "LARGEST_MEMBER", 40_000)
    refused(CIFAR10, tmp_path, r"train\.npz: .*unpacks to more")


def test_npz_with_a_member_that_is_no_array(tmp_path, images):
    file = write_npz(tmp_path, images, CLASSES, users=np.array(["a"] * 40)) / "train.npz"
    whole = file.read_bytes()
    for name in ("images", "users"):
        with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(file, "w") as other:
            for member in given.namelist():
                bare = member == f"{name}.npy"
                other.writestr(*((name, b"hello") if bare else (member, given.read(member))))
        refused(CIFAR10, tmp_path, r"train\.npz: .*no array")


def test_npz_whose_header_asks_for_more_than_any_memory(tmp_path, images):
    file, header = write_npz(tmp_path, images, CLASSES) / "train.npz", io.BytesIO()
    shape = dict(descr="|u1", fortran_order=False, shape=(3 * 10**14,))
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images.npy", header.getvalue())
    with pytest.raises(DataError, match=r"train\.npz: cannot be read") as raised:
        read_images(CIFAR10, tmp_path)
    assert not is_system_error(raised.value)


def test_npz_that_is_incomplete_or_cut_short(tmp_path, images):
    path = write_npz(tmp_path, images, CLASSES) / "train.npz"
    whole = path.read_bytes()
    for where in (0.0, 0.5, 0.99):
        path.write_bytes(whole[: int(where * len(whole))])
        refused(CIFAR10, tmp_path, r"train\.npz")
    path.write_bytes(whole)
    np.savez(tmp_path / "test.npz", images=noise(3), labels=np.zeros(3, int))
    refused(CIFAR10, tmp_path, r"test\.npz: .*classes")
    (tmp_path / "test.npz").unlink()
    refused(CIFAR10, tmp_path, r"test\.npz")


# ---- comparison with what is published, images in both splits


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
