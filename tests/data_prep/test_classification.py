"""CIFAR and MNIST from the command line to the prepared folder."""

import pickle

import numpy as np
import pytest
from faults import Payload
from image_files import image_set, noise, publish, write_batches, write_mnist, write_npz
from prepare_tools import snapshot, tool
from torchvision import datasets

import fedseg
from fedseg.data_prep import classification, mnist_files
from fedseg.data_prep.cifar import CIFAR10, CIFAR100
from fedseg.data_prep.mnist import MNIST
from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset, MNISTDataset
from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError
from fedseg.runs.results import dataset_facts

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
    return image_set(10, train=12, test=2)


def test_classes_are_the_published_ones():
    assert len(CLASSES) == 10 and list(CLASSES) == sorted(CLASSES)
    assert len(CIFAR100.classes) == 100 and list(CIFAR100.classes) == sorted(CIFAR100.classes)
    assert list(CIFAR100.coarse_labels) == COARSE
    assert MNIST.classes == tuple("0123456789")


# ---- CIFAR's official files


@pytest.mark.parametrize(
    ("kind", "dataset"), [(CIFAR10, CIFAR10Dataset), (CIFAR100, CIFAR100Dataset)]
)
def test_the_official_batches(tmp_path, prepare, monkeypatch, kind, dataset):
    images = image_set(len(kind.classes), train=4, test=1)
    publish(monkeypatch, kind, write_batches(tmp_path, kind, images))
    out = prepare(kind.name.lower(), "--root", tmp_path)
    counts = f"{len(images['train'][1])} + {len(images['test'][1])} images"
    assert f"written: {counts} of {len(kind.classes)} classes (official batches" in out
    for split, (pixels, labels) in images.items():
        read = dataset(tmp_path, split)
        np.testing.assert_array_equal(read.images, pixels)
        np.testing.assert_array_equal(read.labels, labels)
        assert read.unofficial is False
    before = snapshot(tmp_path)
    for again in ((), ("--source", tmp_path), ("--download",)):
        out = prepare(kind.name.lower(), "--root", tmp_path, *again)
        assert classification.UNCHANGED in out and snapshot(tmp_path) == before


def test_a_pickle_that_is_not_the_official_one_is_never_opened(
    tmp_path, images, monkeypatch, prepare
):
    mark = tmp_path / "was_here"
    folder = write_batches(tmp_path, CIFAR10, images)
    publish(monkeypatch, CIFAR10, folder)
    (folder / "data_batch_3").write_bytes(pickle.dumps(Payload(mark)))
    told = prepare.fails("cifar", "--root", tmp_path)
    assert "must have the official CIFAR10 in cifar-10-batches-py" in told and "--download" in told
    assert not mark.exists()
    pickle.loads((folder / "data_batch_3").read_bytes())  # it would have been
    assert mark.exists()


def test_images_of_both_splits_stay_in_the_official_files(tmp_path, images, monkeypatch, prepare):
    images["test"][0][3] = images["train"][0][50]
    publish(monkeypatch, CIFAR10, write_batches(tmp_path, CIFAR10, images))
    assert "1 in both splits" in prepare("cifar", "--root", tmp_path)
    npz = write_npz(tmp_path / "npz", images, CLASSES)
    told = prepare.fails("cifar", "--root", tmp_path / "root", "--npz", npz)
    assert "train and test index (50, 3): remove them from one split" in told


def test_no_source(tmp_path, prepare, monkeypatch):
    def fail(*_, **__):
        raise OSError("no route to host")

    assert "does not exist" in prepare.fails("cifar", "--root", tmp_path / "root")
    assert "put cifar-10-python.tar.gz there" in prepare.fails("cifar", "--root", tmp_path)
    monkeypatch.setattr(datasets.CIFAR10, "download", fail)
    assert "no route to host" in prepare.fails("cifar", "--root", tmp_path, "--download")


# ---- what is prepared already


def test_other_images_are_not_replaced(tmp_path, images, prepare):
    root = tmp_path / "root"
    first = write_npz(tmp_path / "first", images, CLASSES)
    prepare("cifar", "--root", root, "--npz", first)
    before = snapshot(root)
    assert classification.UNCHANGED in prepare("cifar", "--root", root, "--npz", first)
    other = write_npz(tmp_path / "other", image_set(10, train=11, test=2), CLASSES)
    assert "--overwrite" in prepare.fails("cifar", "--root", root, "--npz", other)
    assert snapshot(root) == before
    prepare("cifar", "--root", root, "--npz", other, "--overwrite")
    assert len(CIFAR10Dataset(root)) == 110


def test_other_users_are_other_data(tmp_path, prepare):
    from leaf_files import write_shakespeare

    root, source = tmp_path / "root", write_shakespeare(tmp_path / "leaf", 24, 12)
    words = ("shakespeare", "--root", root, "--source", source)
    prepare(*words)
    file = source / "train" / "all_data_0.json"
    file.write_text(file.read_text().replace("f0000_07", "f9999_07"))
    assert "has other images or users" in prepare.fails(*words)


def test_a_prepared_folder_that_was_changed(tmp_path, images, prepare):
    root = tmp_path / "root"
    words = ("cifar", "--root", root, "--npz", write_npz(tmp_path / "npz", images, CLASSES))
    prepare(*words)
    file = root / "test_images.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert "test_images.npy: " in prepare.fails("cifar", "--root", root)
    assert "--overwrite" in prepare.fails(*words)
    prepare(*words, "--overwrite")
    np.testing.assert_array_equal(CIFAR10Dataset(root, "test").images, images["test"][0])


def test_a_root_that_is_a_file(tmp_path, prepare):
    file = tmp_path / "file"
    file.touch()
    for words in (("cifar", "--root", file, "--source", tmp_path), ("segmentation", file)):
        assert f"{file}: is a file: name a folder" in prepare.fails(*words)


# ---- .npz files


def test_results_say_that_npz_files_are_not_the_official_ones(tmp_path, images, prepare):
    npz = write_npz(tmp_path / "npz", images, CLASSES)
    out = prepare("cifar", "--root", tmp_path / "root", "--npz", npz)
    assert "120 + 20 images of 10 classes (.npz files)" in out
    for split, (pixels, labels) in images.items():
        read = CIFAR10Dataset(tmp_path / "root", split)
        np.testing.assert_array_equal(read.images, pixels)
        np.testing.assert_array_equal(read.labels, labels)
        assert dataset_facts(read)["unofficial"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(images=noise(120).astype(np.float32)), "images must be uint8"),
        (dict(images=noise(120, (28, 28, 1))), "images must have shape [32, 32, 3]"),
        (dict(labels=np.zeros(119, np.int64)), "labels must be integers [120]"),
        (dict(labels=np.full(120, 10)), "label 10 of image 0"),
        (dict(classes=np.array(CLASSES[::-1])), "classes must be ['airplane', "),
        (dict(classes=np.array(["cat"], object)), "must have the arrays images, labels and"),
    ],
)
def test_faulty_npz(tmp_path, images, prepare, change, message):
    npz = write_npz(tmp_path / "npz", images, CLASSES, **change)
    told = prepare.fails("cifar", "--root", tmp_path / "root", "--npz", npz)
    assert f"{npz / 'train.npz'}: {message}" in told and not (tmp_path / "root").exists()


def test_npz_that_is_incomplete_or_cut_short(tmp_path, images, prepare):
    path = write_npz(tmp_path, images, CLASSES) / "train.npz"
    whole = path.read_bytes()
    words = ("cifar", "--root", tmp_path / "root", "--npz", tmp_path)
    for share in (0.0, 0.5, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        assert f"{path}: must have the arrays" in prepare.fails(*words)
    path.unlink()
    assert f"{path}: must have the arrays" in prepare.fails(*words)


# ---- synthetic images


def test_synthetic(tmp_path, images, prepare, monkeypatch):
    calls = []

    def write(root):
        calls.append(root)
        return write_images(root, "shapes", CLASSES, *images.values(), synthetic=True)

    monkeypatch.setattr(classification, "write_shapes", write)
    root = tmp_path / "root"
    words = ("cifar", "--root", root, "--synthetic")
    out = prepare(*words)
    assert "rendered: 120 + 20 images" in out and "synthetic" in out
    assert "verified" in prepare(*words) and calls == [root]
    prepare(*words, "--overwrite")
    assert len(calls) == 2
    assert "CIFAR100" in prepare.fails(*words, "--dataset", "cifar100")
    npz = write_npz(tmp_path / "npz", image_set(10, train=13, test=2), CLASSES)
    assert "--synthetic" in prepare.fails(*words, "--npz", npz)
    assert "--overwrite" in prepare.fails("cifar", "--root", root, "--npz", npz)
    prepare("cifar", "--root", root, "--npz", npz, "--overwrite")
    assert "--synthetic has not rendered" in prepare.fails(*words)


# ---- MNIST


def test_mnist(tmp_path, prepare, monkeypatch):
    images = image_set(10, train=30, test=2, shape=(28, 28, 1))
    raw = write_mnist(monkeypatch, tmp_path, images)
    out = prepare("mnist", "--root", tmp_path)
    assert "written: 300 + 20 images of 10 classes (official files, SHA-256 verified)" in out
    for split, (pixels, labels) in images.items():
        read = MNISTDataset(tmp_path, split)
        np.testing.assert_array_equal(read.images, pixels)
        np.testing.assert_array_equal(read.labels, labels)
    file = raw / "t10k-labels-idx1-ubyte"
    words = ("mnist", "--root", tmp_path, "--overwrite")
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file}: must be the official file" in prepare.fails(*words)
    file.unlink()
    assert f"{file}: is missing" in prepare.fails(*words)
    assert len(mnist_files.SHA256) == 4


def test_options_that_mnist_lacks_are_not_offered(tmp_path, prepare, capsys):
    told = prepare.fails("mnist", "--root", tmp_path / "none")
    assert "--download" in told and "--synthetic" not in told
    for option in ("--synthetic", "--from=x"):
        assert f"unrecognized arguments: {option}" in prepare.fails("mnist", option)
    assert tool("mnist", "--help") == 0
    out = capsys.readouterr().out
    assert "--download" in out and "--synthetic" not in out and "--from" not in out
    with pytest.raises(ConfigError, match="mnist has no option 'synthetic'"):
        fedseg.prepare("mnist", tmp_path, synthetic=True)
