"""Images that a user brings: sound files are read, damaged or malicious ones are refused."""

import io
import os
import pickle
import tarfile
import zipfile

import cv2
import numpy as np
import pytest
from image_files import (
    image_set,
    noise,
    old_pickle,
    write_archive,
    write_batches,
    write_folders,
    write_npz,
)

from fedseg.data_prep import own_images
from fedseg.data_prep.cifar import KINDS
from fedseg.data_prep.own_images import unpickle_batch
from fedseg.errors import DataError

CIFAR10, CIFAR100 = KINDS["cifar10"], KINDS["cifar100"]
CLASSES = CIFAR10.classes
DATA = noise(3).reshape(3, -1)


@pytest.fixture
def images():
    return image_set(10)


# ---- pickles


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_reads_what_both_pythons_write():
    content = {"data": DATA, "labels": [3, 1, 2], "label_names": ["cat", "dog"]}
    data = old_pickle(content)
    assert b"cnumpy.core.multiarray\n_reconstruct" in data  # as NumPy 1 wrote it
    found = unpickle_batch(data, "batch")
    np.testing.assert_array_equal(found["data"], DATA)
    assert found["labels"] == [3, 1, 2] and found["label_names"] == ["cat", "dog"]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for order in "CF":
            array = np.asarray(DATA, order=order)
            found = unpickle_batch(pickle.dumps({b"data": array, "n": [1]}, protocol), "batch")
            np.testing.assert_array_equal(found["data"], DATA)
            assert found["n"] == [1]


def test_a_command_is_not_run(tmp_path):
    mark = tmp_path / "was_here"
    for protocol in (0, 2, 4):
        data = pickle.dumps({"data": Command(f"touch {mark}"), "labels": []}, protocol)
        with pytest.raises(DataError, match=r"data_batch_1: .*\.system"):
            unpickle_batch(data, "data_batch_1")
        assert not mark.exists()
    pickle.loads(data)  # it would have been
    assert mark.exists()


def test_no_other_name_is_looked_up():
    names = ("builtins\neval", "builtins\ngetattr", "numpy\nload", "numpy.core.multiarray\nscalar")
    for name in names:
        with pytest.raises(DataError, match="batch: .*" + name.replace("\n", r"\.")):
            unpickle_batch(b"c" + name.encode() + b"\n.", "batch")


def test_arrays_are_bytes_that_fit_their_shape():
    for dtype in ("float32", "int64", "object"):
        with pytest.raises(DataError, match="dtype"):
            unpickle_batch(pickle.dumps({"data": np.ones((2, 3072), dtype)}, 2), "batch")
    data = old_pickle({"data": DATA})
    assert data.count(b"K\x03M\x00\x0c\x86") == 1  # the shape, (3, 3072)
    larger = data.replace(b"K\x03M\x00\x0c\x86", b"K\x09M\x00\x0c\x86")
    with pytest.raises(DataError, match="batch"):
        unpickle_batch(larger, "batch")


def test_pickles_that_are_cut_short_or_no_dictionary():
    whole = old_pickle({"data": DATA, "labels": [0, 1, 2]})
    for data in (*(whole[:cut] for cut in (0, 1, 40, 2000, -1)), pickle.dumps([1, 2])):
        with pytest.raises(DataError, match=r"^batch"):
            unpickle_batch(data, "batch")


# ---- archives


def test_members_that_lead_outside_are_never_unpacked(tmp_path, images):
    target = tmp_path / "target"
    target.write_text("untouched")
    for number, (name, kind) in enumerate(
        [
            ("../outside", tarfile.REGTYPE),
            ("cifar-10-batches-py/../../outside", tarfile.REGTYPE),
            ("/absolute", tarfile.REGTYPE),
            ("cifar-10-batches-py/data_batch_1", tarfile.SYMTYPE),
            ("link", tarfile.LNKTYPE),
            ("fifo", tarfile.FIFOTYPE),
        ]
    ):
        member = tarfile.TarInfo(name)
        member.type = kind
        member.linkname = str(target) if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write_archive(folder / "a.tar.gz", CIFAR10, images, members=[(member, b"")])
        before = sorted(tmp_path.rglob("*"))
        data = CIFAR10.read(path, unofficial=True)
        np.testing.assert_array_equal(data.parts["train"].images, images["train"][0])
        assert sorted(tmp_path.rglob("*")) == before and target.read_text() == "untouched"


def test_damaged_archives(tmp_path, images):
    path = write_archive(tmp_path / "a.tar.gz", CIFAR10, images)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 16
    cuts = [data[:length] for length in (0, 100, len(data) // 3, 9 * len(data) // 10)]
    for damaged in (*cuts, b"<html>not found</html>", bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=path.name):
            CIFAR10.read(path)


def test_archives_of_other_things(tmp_path, images, monkeypatch):
    path = write_archive(tmp_path / "100.tar.gz", CIFAR100, image_set(100, train=1, test=1))
    with pytest.raises(DataError, match="data_batch_1"):
        CIFAR10.read(path)
    twin = tarfile.TarInfo("elsewhere/test_batch")
    (tmp_path / "twin").mkdir()
    path = write_archive(tmp_path / "twin" / "a.tar.gz", CIFAR10, images, members=[(twin, b"x")])
    with pytest.raises(DataError, match="test_batch"):
        CIFAR10.read(path)
    monkeypatch.setattr(own_images, "LARGEST_MEMBER", 1000)
    with pytest.raises(DataError, match="data_batch_1"):
        CIFAR10.read(path)


# ---- what is in the batches


def test_faulty_batches(tmp_path, images):
    mark = tmp_path / "was_here"
    command = b"cposix\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR."

    def fault(change, kind=CIFAR10, images=images):
        folder = write_batches(tmp_path / "batches", kind, images, change)
        with pytest.raises(DataError) as caught:
            kind.read(folder, unofficial=True)
        return str(caught.value)

    message = fault(lambda contents: contents.update(data_batch_3=command))
    assert "data_batch_3" in message and "posix.system" in message and not mark.exists()
    for key, value, field in (
        ("data", noise(8).reshape(8, -1)[:, :-1], "'data'"),
        ("data", noise(8), "'data'"),
        ("data", noise(8).reshape(8, -1).astype(np.float32), "dtype 'f4'"),
        ("data", [1, 2], "'data'"),
        ("labels", [0] * 7, "labels must"),
        ("labels", [0] * 19 + [10], "label 10"),
        ("labels", [-1] * 20, "label -1"),
        ("labels", [10**30] * 20, "out of range"),
        ("labels", [0.5] * 20, "'labels'"),
        ("labels", None, "'labels'"),
    ):
        message = fault(lambda contents, k=key, v=value: contents["test_batch"].update({k: v}))
        assert "test_batch: " in message and field in message

    def names(change):
        return fault(lambda contents: change(contents["batches.meta"]))

    assert "label_names" in names(lambda meta: meta["label_names"].__setitem__(3, "unicorn"))
    assert "label_names" in names(lambda meta: meta["label_names"].reverse())
    assert "label_names" in names(lambda meta: meta.clear())


# ---- image folders


def test_faulty_image_folders(tmp_path, images):
    write_folders(tmp_path / "unknown", images, [*CLASSES[:9], "unicorn"])
    with pytest.raises(DataError, match=r"train: .*'unicorn'"):
        CIFAR10.read(tmp_path / "unknown")
    root = write_folders(tmp_path / "root", images, CLASSES)
    file = sorted((root / "train" / "cat").iterdir())[1]
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    with pytest.raises(DataError, match=file.name):
        CIFAR10.read(root)
    cv2.imwrite(str(file), noise(1, (32, 31, 3))[0])
    with pytest.raises(DataError, match=rf"{file.name}: .*\[32, 31, 3\]"):
        CIFAR10.read(root)
    cv2.imwrite(str(file), noise(1, (32, 32, 3))[0].astype(np.uint16) * 200)
    with pytest.raises(DataError, match=rf"{file.name}: .*8 bits"):
        CIFAR10.read(root)
    file.write_bytes(whole)
    (file.parent / ".DS_Store").write_bytes(b"of a file manager")
    file = file.rename(file.with_suffix(".PNG"))
    assert len(CIFAR10.read(root).parts["train"].labels) == 40
    (file.parent / "more.jpg").write_bytes(whole)
    with pytest.raises(DataError, match=r"cat/more\.jpg: is no PNG image: convert it"):
        CIFAR10.read(root)
    (file.parent / "more.jpg").unlink()
    for file in (root / "test" / "frog").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="test/frog"):
        CIFAR10.read(root)


# ---- .npz files


def test_npz_with_its_own_order_of_classes_and_users(tmp_path, images):
    turned = {s: (pixels, 9 - labels) for s, (pixels, labels) in images.items()}
    users = np.array([f"u{i % 3}" for i in range(40)])
    data = CIFAR10.read(write_npz(tmp_path, turned, CLASSES[::-1], users=users))
    for split, part in data.parts.items():
        np.testing.assert_array_equal(part.images, images[split][0])
        np.testing.assert_array_equal(part.labels, images[split][1])
    assert data.parts["train"].users == users.tolist() and data.parts["test"].users is None


def test_faulty_npz(tmp_path, images):
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
        (dict(users=np.array([b"a"] * 40)), "'users' must be text or whole numbers, not .S1"),
        (dict(users=np.full(40, np.nan)), "'users' must be .*not float64"),
        (dict(users=np.ones(40, bool)), "'users' must be .*not bool"),
    ):
        write_npz(tmp_path, images, CLASSES, **change)
        with pytest.raises(DataError, match=rf"train\.npz: .*{message}"):
            CIFAR10.read(tmp_path)


def test_npz_with_a_member_that_is_no_array(tmp_path, images):
    file = write_npz(tmp_path, images, CLASSES, users=np.array(["a"] * 40)) / "train.npz"
    whole = file.read_bytes()
    for name in ("images", "users"):
        with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(file, "w") as other:
            for member in given.namelist():
                bare = member == f"{name}.npy"
                other.writestr(*((name, b"hello") if bare else (member, given.read(member))))
        with pytest.raises(DataError, match=rf"train\.npz: its '{name}' is no array"):
            CIFAR10.read(tmp_path)


def test_what_unpacks_to_gigabytes_is_not_unpacked(tmp_path, images, monkeypatch):
    write_npz(tmp_path, images, CLASSES)
    monkeypatch.setattr(own_images, "LARGEST_MEMBER", 40_000)
    with pytest.raises(DataError, match=r"train\.npz: unpacks to more"):
        CIFAR10.read(tmp_path)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        filler = tarfile.TarInfo("filler")  # it is in front of what is looked for
        filler.size = 40_001
        archive.addfile(filler, io.BytesIO(bytes(filler.size)))
    with pytest.raises(DataError, match=r"filler is more than"):
        own_images.batch_files(tmp_path / "a.tar.gz", ["batch"])


def test_npz_that_is_incomplete_or_cut_short(tmp_path, images):
    path = write_npz(tmp_path, images, CLASSES) / "train.npz"
    whole = path.read_bytes()
    for where in (0.0, 0.5, 0.99):
        path.write_bytes(whole[: int(where * len(whole))])
        with pytest.raises(DataError, match=r"train\.npz"):
            CIFAR10.read(tmp_path)
    path.write_bytes(whole)
    np.savez(tmp_path / "test.npz", images=noise(3), labels=np.zeros(3, int))
    with pytest.raises(DataError, match=r"test\.npz: .*classes"):
        CIFAR10.read(tmp_path)
    (tmp_path / "test.npz").unlink()
    with pytest.raises(DataError, match=r"test\.npz"):
        CIFAR10.read(tmp_path)
