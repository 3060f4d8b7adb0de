"""The prepare tools of CIFAR and MNIST, from the command line to the prepared folder."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torchvision
from image_files import (
    image_set,
    published_as,
    write_archive,
    write_batches,
    write_folders,
    write_mnist,
    write_npz,
)

from data_prep import cifar, embedded_images
from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset, MNISTDataset
from fedseg.partition import FixedPartition, NaturalPartition

TOOLS = Path(__file__).parents[2] / "tools"
CLASSES = cifar.CIFAR10.published.classes
SMALL = ("--unofficial", "--partition", "homogeneous", "--num-clients", "4")

DIRICHLET = ("--partition", "dirichlet", "--alpha", "0.1", "1")


@pytest.fixture
def images():
    return image_set(10, train=12, test=2)


def tool(name, *arguments):
    """Run a tool in this process; returns its exit code."""
    before, sys.argv = sys.argv, [name, *map(str, arguments)]
    try:
        runpy.run_path(str(TOOLS / name), run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before


def good(capsys, *arguments, name="prepare_cifar.py"):
    """Standard output of a run that must succeed."""
    code = tool(name, *arguments)
    out, error = capsys.readouterr()
    assert code == 0, error
    return out


def failure(capsys, *arguments, name="prepare_cifar.py"):
    """The message of a run that must fail for a mistake of the user's."""
    assert tool(name, *arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error[error.index("error: ") :]


def snapshot(root):
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".png"}


def test_from_an_archive_to_clients(tmp_path, images, capsys):
    root = tmp_path / "root"
    archive = write_archive(tmp_path / "a.tar.gz", cifar.CIFAR10, images)
    out = good(capsys, "--root", root, "--source", archive, *SMALL, *DIRICHLET)
    assert "written: 120 + 20 images of 10 classes" in out and "none in both splits" in out
    train, test = CIFAR10Dataset(root), CIFAR10Dataset(root, "test")
    assert isinstance(train.images, np.memmap)
    np.testing.assert_array_equal(train.images, images["train"][0])
    np.testing.assert_array_equal(test.labels, images["test"][1])
    for alpha in ("0.1", "1"):
        file = root / "splits" / f"dirichlet_alpha{alpha}_4clients_seed0.json"
        clients = FixedPartition(file=file)(train)
        assert [len(indices) for indices in clients.values()] == [30] * 4
        assert file.with_suffix(".png").stat().st_size > 1000
        assert f"{file}: written" in out
    assert "classes a client" in out


def test_a_root_that_is_a_file(tmp_path, images, capsys):
    archive = write_archive(tmp_path / "a.tar.gz", cifar.CIFAR10, images)
    message = failure(capsys, "--root", archive, "--source", archive, *SMALL)
    assert f"--root: {archive} is a file; name a folder" in message


def test_run_again_it_verifies(tmp_path, images, capsys):
    root = tmp_path / "root"
    source = write_npz(tmp_path / "npz", images, CLASSES)
    split = ("--partition", "homogeneous", "--num-clients", "4")
    arguments = ("--root", root, "--unofficial", *split)
    good(capsys, *arguments, "--source", source)
    before = snapshot(root)
    for again in ((), ("--source", source)):
        out = good(capsys, *arguments, *again)
        assert "is prepared already, verified" in out and "is there already, the same" in out
        assert "written" not in out and snapshot(root) == before


def test_a_prepared_folder_that_was_changed(tmp_path, images, capsys):
    root = tmp_path / "root"
    source = write_npz(tmp_path / "npz", images, CLASSES)
    arguments = ("--root", root, "--source", source, *SMALL)
    good(capsys, *arguments)
    file = root / "test_images.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    told = failure(capsys, "--root", root, *SMALL)
    assert "test_images.npy: the test images or labels are not those that" in told
    assert "prepare them again with --overwrite" in failure(capsys, *arguments)
    good(capsys, *arguments, "--overwrite")
    np.testing.assert_array_equal(CIFAR10Dataset(root, "test").images, images["test"][0])


def test_other_images_are_not_replaced(tmp_path, images, capsys):
    root = tmp_path / "root"
    good(capsys, "--root", root, "--source", write_npz(tmp_path / "a", images, CLASSES), *SMALL)
    before = snapshot(root)
    other = image_set(10, train=11, test=2)
    source = write_npz(tmp_path / "b", other, CLASSES)
    told = failure(capsys, "--root", root, "--source", source, *SMALL)
    assert "holds other images than" in told and snapshot(root) == before
    told = failure(capsys, "--root", root, "--partition", "homogeneous", "--num-clients", "200")
    assert "200 clients" in told
    good(capsys, "--root", root, "--source", source, "--overwrite", *SMALL)
    assert len(CIFAR10Dataset(root)) == 110


def test_the_source_may_lie_in_the_root(tmp_path, images, capsys):
    write_batches(tmp_path / "cifar-10-batches-py", cifar.CIFAR10, images)
    good(capsys, "--root", tmp_path, *SMALL)
    assert len(CIFAR10Dataset(tmp_path)) == 120


def test_image_folders(tmp_path, images, capsys):
    source = write_folders(tmp_path / "png", images, CLASSES)
    good(capsys, "--root", tmp_path / "root", "--source", source, *SMALL)
    assert np.all(np.diff(CIFAR10Dataset(tmp_path / "root").labels) >= 0)


def test_cifar100_with_pachinko(tmp_path, capsys):
    images = image_set(100, train=4, test=1)
    archive = write_archive(tmp_path / "a.tar.gz", cifar.CIFAR100, images)
    arguments = (
        "--dataset",
        "cifar100",
        "--unofficial",
        "--num-clients",
        "4",
        "--partition",
        "pachinko",
    )
    good(capsys, "--root", tmp_path / "root", "--source", archive, *arguments)
    train = CIFAR100Dataset(tmp_path / "root")
    assert train.coarse_labels[[0, 99]].tolist() == [4, 13]  # apple: fruit, worm: invertebrates
    file = tmp_path / "root" / "splits" / "pachinko_alpha0.1_beta10_4clients_seed0.json"
    assert sum(map(len, FixedPartition(file=file)(train).values())) == 400


def test_natural_clients_of_an_npz_file(tmp_path, images, capsys):
    users = np.array([f"user {i % 5}" for i in range(120)])
    source = write_npz(tmp_path / "npz", images, CLASSES, users=users)
    root = tmp_path / "root"
    good(capsys, "--root", root, "--source", source, "--unofficial", "--partition", "natural")
    train = CIFAR10Dataset(root)
    assert train.users == users.tolist()
    clients = NaturalPartition("users")(train)
    written = FixedPartition(file=root / "splits" / "natural_users.json")(train)
    assert {c: i.tolist() for c, i in written.items()} == {
        c: i.tolist() for c, i in clients.items()
    }
    # users do not outlive their images
    good(
        capsys,
        *("--root", root, "--source", write_npz(tmp_path / "b", images, CLASSES), "--overwrite"),
        *("--unofficial", "--partition", "none"),
    )
    assert CIFAR10Dataset(root).users is None
    told = failure(capsys, "--root", root, "--partition", "natural")
    assert "has no attribute 'users'" in told or "users" in told


def test_incomplete_set(tmp_path, images, capsys):
    source = write_npz(tmp_path / "npz", images, CLASSES)
    told = failure(capsys, "--root", tmp_path / "root", "--source", source)
    assert "has 120 images, 12 of them of class 'airplane', but CIFAR10 has 50000" in told
    assert "--unofficial" in told and not (tmp_path / "root").exists()


@pytest.mark.parametrize("choice, images_left", [("keep", 120), ("drop", 119)])
def test_shared_images(tmp_path, images, capsys, choice, images_left):
    images["test"][0][3] = images["train"][0][50]
    source = write_npz(tmp_path / "npz", images, CLASSES)
    arguments = ("--root", tmp_path / "root", "--source", source, *SMALL)
    told = failure(capsys, *arguments)
    assert "train.npz[50] = " in told and "test.npz[3]" in told
    out = good(capsys, *arguments, "--shared", choice)
    assert len(CIFAR10Dataset(tmp_path / "root")) == images_left
    index = json.loads((tmp_path / "root" / "dataset.json").read_text())
    assert index["shared_images"] == (choice == "keep")
    assert ("1 in both splits" in out) == (choice == "keep")
    # and again
    assert "is prepared already" in good(capsys, *arguments, "--shared", choice)


def test_shared_images_of_the_official_files(tmp_path, images, capsys, monkeypatch):
    images["test"][0][3] = images["train"][0][50]
    source = write_batches(tmp_path / "b", cifar.CIFAR10, images)
    monkeypatch.setitem(cifar.KINDS, "cifar10", published_as(cifar.CIFAR10, source, images))
    out = good(capsys, "--root", tmp_path / "r", "--source", source, "--partition", "none")
    assert "1 test images are training images too, pixel by pixel (so they are in the pub" in out
    assert "md5 verified), 1 in both splits" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--alpha", "-1"), "alpha"),
        (("--num-clients", "0"), "num_clients"),
        (("--num-clients", "121"), "121 clients"),
        (("--partition", "pachinko"), "coarse"),
        (("--partition", "dirichlet", "--users", "u.csv"), "--users: is for --partition natural"),
        (("--embedded",), "--embedded: renders images, leave out --source"),
    ],
)
def test_options_that_make_no_sense(tmp_path, images, capsys, arguments, message):
    source = write_npz(tmp_path / "npz", images, CLASSES)
    base = ("--root", tmp_path / "root", "--source", source, "--unofficial")
    assert message in failure(capsys, *base, *arguments)


def test_no_source(tmp_path, capsys, monkeypatch):
    told = failure(capsys, "--root", tmp_path / "root")
    assert "holds no CIFAR10: put cifar-10-python.tar.gz" in told and "--download" in told
    assert "does not exist" in failure(capsys, "--root", tmp_path, "--source", tmp_path / "no")

    def fail(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fail)
    assert "cannot be downloaded" in failure(capsys, "--root", tmp_path, "--download")


# ---- rendered images


@pytest.fixture
def rendered(monkeypatch, images):
    """A renderer that writes noise; yields how often it was asked."""
    from fedseg.datasets.arrays import write_images

    calls = []

    def write(root, **options):
        calls.append(root)
        return write_images(root, "shapes", CLASSES, *images.values(), synthetic=True)

    monkeypatch.setattr(embedded_images, "write_embedded", write, raising=False)
    return calls


def test_embedded(tmp_path, rendered, capsys):
    root = tmp_path / "root"
    arguments = ("--root", root, "--embedded", "--partition", "none")
    out = good(capsys, *arguments)
    assert "rendered: 120 + 20 images" in out and "are not the published data set's" in out
    assert "is rendered already, verified" in good(capsys, *arguments)
    assert rendered == [root]
    good(capsys, *arguments, "--overwrite")
    assert len(rendered) == 2
    told = failure(capsys, *arguments, "--dataset", "cifar100")
    assert "there is no rendered CIFAR100" in told


def test_rendered_images_do_not_hide_the_real_ones(tmp_path, rendered, capsys):
    root = tmp_path / "root"
    good(capsys, "--root", root, "--embedded", "--partition", "none")
    out = good(capsys, "--root", root, "--partition", "none")  # nothing else is there
    assert "is prepared already" in out and "are not the published data set's" in out
    real = image_set(10, train=13, test=2)
    write_batches(root / "cifar-10-batches-py", cifar.CIFAR10, real)
    assert "holds other images than" in failure(capsys, "--root", root, *SMALL)
    good(capsys, "--root", root, "--overwrite", *SMALL)
    assert len(CIFAR10Dataset(root)) == 130
    told = failure(capsys, "--root", root, "--embedded")
    assert "holds images that --embedded has not rendered" in told


# ---- MNIST


def test_mnist(tmp_path, capsys):
    images = image_set(10, train=30, test=2, shape=(28, 28, 1))
    source = write_mnist(tmp_path / "idx", images)
    arguments = ("--root", tmp_path / "root", "--source", source, "--unofficial", "--alpha", "1")
    out = good(capsys, *arguments, name="prepare_mnist.py")
    assert "written: 300 + 20 images of 10 classes" in out
    train = MNISTDataset(tmp_path / "root")
    np.testing.assert_array_equal(train.images, images["train"][0])
    file = tmp_path / "root" / "splits" / "dirichlet-class_alpha1_5clients_seed0.json"
    assert len(FixedPartition(file=file)(train)) == 5
    assert "is prepared already" in good(capsys, *arguments, name="prepare_mnist.py")
    (source / "t10k-labels-idx1-ubyte.gz").unlink()
    told = failure(capsys, *arguments, name="prepare_mnist.py")
    assert "t10k-labels-idx1-ubyte: does not exist" in told
