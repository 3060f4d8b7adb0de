"""CIFAR and MNIST from the command line to the prepared folder and its splits."""

import json

import numpy as np
import pytest
import torchvision
from image_files import image_set, publish, write_archive, write_batches, write_mnist, write_npz
from prepare_tools import snapshot, tool

import fedseg
from fedseg.data_prep import classification, image_files
from fedseg.data_prep.image_sets import CIFAR10, CIFAR100
from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset, MNISTDataset
from fedseg.errors import ConfigError, MissingDataError
from fedseg.partition import FixedPartition, NaturalPartition

CLASSES = CIFAR10.classes
SMALL = ("--unofficial", "--partition", "homogeneous", "--num-clients", "4")
DIRICHLET = ("--partition", "dirichlet", "--alpha", "0.1", "1")


@pytest.fixture
def images():
    return image_set(10, train=12, test=2)


def test_from_an_archive_to_clients(tmp_path, images, prepare, monkeypatch):
    root = tmp_path / "root"
    archive = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    publish(monkeypatch, CIFAR10, tmp_path / "to_pack", images, archive)
    out = prepare("cifar", "--root", root, "--source", archive, *SMALL, *DIRICHLET)
    assert "written: 120 + 20 images of 10 classes" in out and "none in both splits" in out
    train, test = CIFAR10Dataset(root), CIFAR10Dataset(root, "test")
    np.testing.assert_array_equal(train.images, images["train"][0])
    np.testing.assert_array_equal(test.labels, images["test"][1])
    for alpha in ("0.1", "1"):
        file = root / "splits" / f"dirichlet_alpha{alpha}_4clients_seed0.json"
        clients = FixedPartition(file=file)(train)
        assert [len(indices) for indices in clients.values()] == [30] * 4
        assert file.with_suffix(".png").stat().st_size > 1000
        assert f"{file}: written" in out
    assert "classes per client" in out


def test_a_root_that_is_a_file(tmp_path, prepare):
    file = tmp_path / "file"
    file.touch()
    for words in (("cifar", "--root", file, "--source", tmp_path), ("segmentation", file)):
        assert f"{file}: is a file: name a folder" in prepare.fails(*words)


def test_run_again_it_verifies(tmp_path, images, prepare):
    root = tmp_path / "root"
    source = write_npz(tmp_path / "npz", images, CLASSES)
    split = ("--partition", "homogeneous", "--num-clients", "4")
    arguments = ("--root", root, "--unofficial", *split)
    prepare("cifar", *arguments, "--source", source)
    before = snapshot(root)
    for again in ((), ("--source", source)):
        out = prepare("cifar", *arguments, *again)
        assert "is prepared already, verified" in out and "already exists, unchanged" in out
        assert "written" not in out and snapshot(root) == before


def test_a_prepared_folder_that_was_changed(tmp_path, images, prepare):
    root = tmp_path / "root"
    source = write_npz(tmp_path / "npz", images, CLASSES)
    arguments = ("--root", root, "--source", source, *SMALL)
    prepare("cifar", *arguments)
    file = root / "test_images.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    told = prepare.fails("cifar", "--root", root, *SMALL)
    assert "test_images.npy: " in told
    assert "--overwrite" in prepare.fails("cifar", *arguments)
    prepare("cifar", *arguments, "--overwrite")
    np.testing.assert_array_equal(CIFAR10Dataset(root, "test").images, images["test"][0])


def test_other_images_are_not_replaced(tmp_path, images, prepare):
    root = tmp_path / "root"
    prepare("cifar", "--root", root, "--source", write_npz(tmp_path / "a", images, CLASSES), *SMALL)
    before = snapshot(root)
    other = image_set(10, train=11, test=2)
    source = write_npz(tmp_path / "b", other, CLASSES)
    told = prepare.fails("cifar", "--root", root, "--source", source, *SMALL)
    assert "--overwrite" in told and snapshot(root) == before
    told = prepare.fails(
        "cifar", "--root", root, "--partition", "homogeneous", "--num-clients", "200"
    )
    assert "200 clients" in told
    prepare("cifar", "--root", root, "--source", source, "--overwrite", *SMALL)
    assert len(CIFAR10Dataset(root)) == 110


def test_shared_images_of_a_prepared_folder_are_not_dropped_in_silence(tmp_path, images, prepare):
    (train, labels), (test, _) = images["train"], images["test"]
    test[0], images["test"][1][0] = train[0], labels[0]
    root, source = tmp_path / "root", write_npz(tmp_path / "npz", images, CLASSES)
    prepare("cifar", "--root", root, "--source", source, "--shared", "keep", *SMALL)
    assert "1 in both splits" in prepare("cifar", "--root", root, *SMALL)
    before = snapshot(root)
    told = prepare.fails("cifar", "--root", root, "--shared", "drop", *SMALL)
    assert "1 images in train and in test" in told and "--source" in told
    assert snapshot(root) == before
    arguments = ("--source", source, "--shared", "drop", "--overwrite")
    prepare("cifar", "--root", root, *arguments, *SMALL)
    assert len(CIFAR10Dataset(root)) == 119
    prepare("cifar", "--root", root, "--shared", "drop", *SMALL)


def test_a_download_that_was_cut_short_goes_on(tmp_path, images, prepare, monkeypatch):
    kind = torchvision.datasets.CIFAR10
    archive = write_archive(tmp_path / kind.filename, CIFAR10, images)
    publish(monkeypatch, CIFAR10, tmp_path / "to_pack", images, archive)
    whole = archive.read_bytes()
    archive.write_bytes(whole[:1000])
    prepare.fails("cifar", "--root", tmp_path, *SMALL)
    monkeypatch.setattr(image_files, "download_url", lambda *_: archive.write_bytes(whole))
    prepare("cifar", "--root", tmp_path, "--download", *SMALL)
    assert len(CIFAR10Dataset(tmp_path)) == 120


def test_cifar100_with_pachinko(tmp_path, prepare):
    source = write_npz(tmp_path / "npz", image_set(100, train=4, test=1), CIFAR100.classes)
    options = ("--unofficial", "--num-clients", "4", "--partition", "pachinko")
    prepare("cifar100", "--root", tmp_path / "root", "--source", source, *options)
    train = CIFAR100Dataset(tmp_path / "root")
    assert train.coarse_labels[[0, 99]].tolist() == [4, 13]  # apple: fruit, worm: invertebrates
    file = tmp_path / "root" / "splits" / "pachinko_alpha0.1_beta10_4clients_seed0.json"
    assert sum(map(len, FixedPartition(file=file)(train).values())) == 400


def test_natural_clients_of_an_npz_file(tmp_path, images, prepare):
    users = np.array([f"user {i % 5}" for i in range(120)])
    source = write_npz(tmp_path / "npz", images, CLASSES, users=users)
    root = tmp_path / "root"
    prepare("cifar", "--root", root, "--source", source, "--unofficial", "--partition", "natural")
    train = CIFAR10Dataset(root)
    assert train.users == users.tolist()
    clients = NaturalPartition("users")(train)
    written = FixedPartition(file=root / "splits" / "natural_users.json")(train)
    assert {c: i.tolist() for c, i in written.items()} == {
        c: i.tolist() for c, i in clients.items()
    }
    # users do not outlive their images
    prepare(
        "cifar",
        *("--root", root, "--source", write_npz(tmp_path / "b", images, CLASSES), "--overwrite"),
        *("--unofficial", "--partition", "none"),
    )
    assert CIFAR10Dataset(root).users is None
    assert "users" in prepare.fails("cifar", "--root", root, "--partition", "natural")


def test_other_users_of_the_same_images(tmp_path, images, prepare, monkeypatch):
    root, whose = tmp_path / "root", np.array([f"user {i % 5}" for i in range(120)])
    options = ("--root", root, "--unofficial", "--partition", "none", "--source")
    without = write_npz(tmp_path / "without", images, CLASSES)
    first = write_npz(tmp_path / "first", images, CLASSES, users=whose)
    other = write_npz(tmp_path / "other", images, CLASSES, users=whose[::-1].copy())
    prepare("cifar", *options, first)
    assert classification.UNCHANGED in prepare("cifar", *options, first)
    for source in (other, without):
        assert "other images or users" in prepare.fails("cifar", *options, source)
        assert CIFAR10Dataset(root).users == whose.tolist()

    made = np.lib.format.header_data_from_array_1_0

    def header(array):
        if array.ndim == 4:
            raise OSError(28, "No space left on device")
        return made(array)

    with monkeypatch.context() as patch:  # never new users with the images before, or no users
        patch.setattr(np.lib.format, "header_data_from_array_1_0", header)
        assert "No space left on device" in prepare.fails("cifar", *options, other, "--overwrite")
    with pytest.raises(MissingDataError, match=r"dataset\.json"):
        CIFAR10Dataset(root)
    prepare("cifar", *options, other)
    assert CIFAR10Dataset(root).users == whose[::-1].tolist()
    prepare("cifar", *options, without, "--overwrite")
    assert "other images or users" in prepare.fails("cifar", *options, first)


def test_incomplete_set(tmp_path, images, prepare):
    source = write_npz(tmp_path / "npz", images, CLASSES)
    told = prepare.fails("cifar", "--root", tmp_path / "root", "--source", source)
    assert "train: " in told and "--unofficial" in told and not (tmp_path / "root").exists()


def test_shared_images(tmp_path, images, prepare):
    images["test"][0][3] = images["train"][0][50]
    source = write_npz(tmp_path / "npz", images, CLASSES)
    for choice, left in (("keep", 120), ("drop", 119)):
        root = tmp_path / choice
        arguments = ("--root", root, "--source", source, *SMALL)
        told = prepare.fails("cifar", *arguments)
        assert "train.npz[50] = " in told and "test.npz[3]" in told
        out = prepare("cifar", *arguments, "--shared", choice)
        assert len(CIFAR10Dataset(root)) == left
        index = json.loads((root / "dataset.json").read_text())
        assert index["shared_images"] == (choice == "keep")
        assert ("1 in both splits" in out) == (choice == "keep")
        assert "is prepared already" in prepare("cifar", *arguments, "--shared", choice)  # again


def test_options_that_make_no_sense(tmp_path, images, prepare):
    source = write_npz(tmp_path / "npz", images, CLASSES)
    base = ("--root", tmp_path / "root", "--source", source, "--unofficial")
    for arguments, field in (
        (("--alpha", "-1"), "alpha"),
        (("--num-clients", "0"), "num_clients"),
        (("--num-clients", "121"), "121 clients"),
        (("--partition", "pachinko"), "coarse"),
        (("--partition", "dirichlet", "--users", "u.csv"), "--users"),
        (("--synthetic",), "--synthetic"),
    ):
        assert field in prepare.fails("cifar", *base, *arguments)


def test_no_source(tmp_path, prepare, monkeypatch):
    told = prepare.fails("cifar", "--root", tmp_path / "root")
    assert "cifar-10-python.tar.gz" in told and "--download" in told
    assert "{train,test}/<class>/*.png" in prepare.fails("cifar", "--root", tmp_path)
    assert str(tmp_path / "no") in prepare.fails(
        "cifar", "--root", tmp_path, "--source", tmp_path / "no"
    )

    def fail(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(image_files, "download_url", fail)
    told = prepare.fails("cifar", "--root", tmp_path, "--download")
    assert f"{tmp_path}: CIFAR10 " in told and "no route to host" in told


# ---- synthetic images


@pytest.fixture
def rendered(monkeypatch, images):
    """A renderer that writes noise; yields how often it was asked."""
    from fedseg.datasets.arrays import write_images

    calls = []

    def write(root, **options):
        calls.append(root)
        return write_images(root, "shapes", CLASSES, *images.values(), synthetic=True)

    monkeypatch.setattr(classification, "write_shapes", write)
    return calls


def test_synthetic(tmp_path, rendered, prepare):
    root = tmp_path / "root"
    arguments = ("--root", root, "--synthetic", "--partition", "none")
    out = prepare("cifar", *arguments)
    assert "rendered: 120 + 20 images" in out and "synthetic" in out
    assert "verified" in prepare("cifar", *arguments)
    assert rendered == [root]
    prepare("cifar", *arguments, "--overwrite")
    assert len(rendered) == 2
    assert "CIFAR100" in prepare.fails("cifar", *arguments, "--dataset", "cifar100")


def test_synthetic_images_do_not_hide_the_real_ones(tmp_path, rendered, prepare, monkeypatch):
    root = tmp_path / "root"
    prepare("cifar", "--root", root, "--synthetic", "--partition", "none")
    out = prepare("cifar", "--root", root, "--partition", "none")  # nothing else is there
    assert "is prepared already" in out and "synthetic" in out
    real = image_set(10, train=13, test=2)
    source = write_batches(root / "cifar-10-batches-py", CIFAR10, real)
    publish(monkeypatch, CIFAR10, source, real)
    assert "--overwrite" in prepare.fails("cifar", "--root", root, *SMALL)
    prepare("cifar", "--root", root, "--overwrite", *SMALL)
    assert len(CIFAR10Dataset(root)) == 130
    assert "--synthetic" in prepare.fails("cifar", "--root", root, "--synthetic")


# ---- MNIST


def test_mnist(tmp_path, prepare):
    images = image_set(10, train=30, test=2, shape=(28, 28, 1))
    source = write_mnist(tmp_path / "idx", images)
    arguments = ("--root", tmp_path / "root", "--source", source, "--unofficial", "--alpha", "1")
    out = prepare("mnist", *arguments)
    assert "written: 300 + 20 images of 10 classes" in out
    train = MNISTDataset(tmp_path / "root")
    np.testing.assert_array_equal(train.images, images["train"][0])
    file = tmp_path / "root" / "splits" / "dirichlet-class_alpha1_5clients_seed0.json"
    assert len(FixedPartition(file=file)(train)) == 5
    assert "is prepared already" in prepare("mnist", *arguments)
    (source / "t10k-labels-idx1-ubyte.gz").unlink()
    told = prepare.fails("mnist", *arguments)
    assert "t10k-labels-idx1-ubyte" in told


def test_ways_that_mnist_lacks_are_not_offered(tmp_path, prepare, capsys):
    told = prepare.fails("mnist", "--root", tmp_path / "none")
    assert "--download" in told and "--synthetic" not in told
    for option in ("--synthetic", "--from=x"):
        assert f"unrecognized arguments: {option}" in prepare.fails("mnist", option)
    assert tool("mnist", "--help") == 0
    out = capsys.readouterr().out
    assert "--download" in out and "--synthetic" not in out and "--from" not in out
    with pytest.raises(ConfigError, match="mnist has no option 'synthetic'"):
        fedseg.prepare("mnist", tmp_path, synthetic=True)
