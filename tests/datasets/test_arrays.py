"""Images as arrays and prepared folders: what is read is what was written, and what is refused."""

import hashlib
import json
import os
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from faults import Payload

from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset, ImageArrays, MNISTDataset, StoredImages
from fedseg.datasets.arrays import (
    INDEX,
    SPLITS,
    content_checksum,
    images_checksum,
    is_synthetic,
    read_index,
    write_images,
)
from fedseg.errors import DataError, MissingDataError
from fedseg.registry import DATASETS, build

CLASSES = ("cat", "dog", "emu")
TRAIN, TEST = 12, 6


def noise(count: int, shape=(6, 5, 3), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def labels_of(count: int, classes: int = len(CLASSES)) -> np.ndarray:
    return np.arange(count) % classes


def splits(shape=(6, 5, 3), classes: int = len(CLASSES)):
    return (
        (noise(TRAIN, shape), labels_of(TRAIN, classes)),
        (noise(TEST, shape, seed=1), labels_of(TEST, classes)),
    )


def write(root: Path, **options) -> Path:
    write_images(root, "Animals", CLASSES, *splits(), **options)
    return root


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("prepared"), coarse_labels=[0, 0, 1], source="noise")


@pytest.fixture
def root(prepared, tmp_path) -> Path:
    """A prepared folder to be spoilt."""
    return Path(shutil.copytree(prepared, tmp_path / "root"))


def change_index(root: Path, *keys, value) -> None:
    path = root / INDEX
    index = json.loads(path.read_text())
    place = index
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(index))


# ---------------------------------------------------------------- what is read


def test_what_was_written_is_read(prepared):
    for split in SPLITS:
        images, labels = splits()[SPLITS.index(split)]
        dataset = StoredImages(prepared, split)
        assert len(dataset) == len(images)
        assert np.array_equal(dataset.images, images) and dataset.images.dtype == np.uint8
        assert np.array_equal(dataset.labels, labels) and dataset.labels.dtype == np.int64
        assert dataset.metainfo == {"classes": CLASSES} and dataset.classes == CLASSES
        assert dataset.coarse_labels.tolist() == [0, 0, 1]
        assert dataset.users is None and dataset.domains is None
        assert dataset.data_root == str(prepared) and dataset.split == split
        assert dataset.split_checksum == images_checksum(images, labels)


def test_a_sample_is_channels_first_and_its_own(prepared):
    dataset = StoredImages(prepared)
    sample = dataset[5]
    assert sample["inputs"].dtype == torch.uint8 and sample["inputs"].is_contiguous()
    assert np.array_equal(sample["inputs"], dataset.images[5].transpose(2, 0, 1))
    assert sample["data_samples"].dtype == torch.int64 and sample["data_samples"].shape == ()
    assert sample["data_samples"] == dataset.labels[5]
    sample["inputs"].zero_()
    assert dataset.images[5].any()


def test_the_checksum_is_of_bytes_whatever_the_layout():
    images, labels = splits()[0]
    expected = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    assert images_checksum(images, labels) == expected
    assert images_checksum(np.asfortranarray(images), labels.astype(np.uint8)) == expected
    assert images_checksum(images[::-1], labels) != expected
    assert images_checksum(images, labels[::-1]) != expected
    many = noise(9000, (2, 2, 1))
    own = np.zeros(9000, np.int64)
    expected = hashlib.sha256(many.tobytes() + own.tobytes()).hexdigest()
    assert images_checksum(many, own) == expected  # more than one block


def test_images_in_another_order_of_memory(tmp_path):
    (images, labels), test = splits()
    train = np.asfortranarray(images), labels.astype(">i2")
    index = write_images(tmp_path, "Animals", CLASSES, train, test)
    assert index == json.loads((tmp_path / INDEX).read_text())
    dataset = StoredImages(tmp_path)
    assert np.array_equal(dataset.images, images) and np.array_equal(dataset.labels, labels)
    assert np.load(tmp_path / "train_labels.npy").dtype == np.int64


def test_users_of_a_prepared_folder(root):
    names = np.array([f"u{i // 4}" for i in range(TRAIN)])
    np.save(root / "train_users.npy", names)
    assert StoredImages(root).users == names.tolist()
    assert StoredImages(root, "test").users is None
    np.save(root / "train_users.npy", names[:-1])
    with pytest.raises(DataError, match="11 users for 12 images"):
        StoredImages(root)
    for users in (3, [1.5] * TRAIN, [["a"]] * TRAIN):
        np.save(root / "train_users.npy", np.array(users))
        with pytest.raises(DataError, match=r"train_users\.npy: users must be texts"):
            StoredImages(root)


NAMED = [
    (CIFAR10Dataset, (32, 32, 3), 10),
    (CIFAR100Dataset, (32, 32, 3), 100),
    (MNISTDataset, (28, 28, 1), 10),
]


def test_named_data_sets_know_their_shape_and_classes(tmp_path, prepared):
    for cls, shape, classes in NAMED:
        names = [f"class {i}" for i in range(classes)]
        right = tmp_path / cls.__name__ / "right"
        write_images(right, "X", names, *splits(shape, classes))
        config = {"type": cls.__name__, "data_root": str(right), "split": "test"}
        assert len(build(DATASETS, config, "dataset")) == TEST
        with pytest.raises(DataError, match=rf"dataset\.json: train: .*{cls.__name__}"):
            cls(prepared)
        few = tmp_path / cls.__name__ / "few"
        write_images(few, "X", names[:-1], *splits(shape, classes - 1))
        with pytest.raises(DataError, match=rf"dataset\.json: classes: {classes - 1}, .*{classes}"):
            cls(few)


def test_names_of_classes_in_any_script_but_not_of_two_lines(tmp_path):
    names = ["\u0645\u06cc\u200c\u0631", "\u79c1\u3000\u306e", "c"]
    write_images(tmp_path / "right", "X", names, *splits())
    assert read_index(tmp_path / "right" / INDEX)["classes"] == names
    with pytest.raises(DataError, match=r"control characters; rename the classes"):
        write_images(tmp_path / "wrong", "X", [*names[:2], "a\nb"], *splits())
    assert not (tmp_path / "wrong").exists()


# ---------------------------------------------------------------- no labeled images

IMAGES, LABELS = splits()[0]
ARRAYS = [
    (IMAGES / 255, LABELS, "uint8 .*float64"),
    (IMAGES[..., 0], LABELS, r"uint8 \[12, 6, 5\]"),
    (IMAGES[:0], LABELS[:0], "images"),
    (IMAGES, LABELS[:-1], r"labels .*int64 \[11\]"),
    (IMAGES, np.eye(3, dtype=int)[LABELS], r"labels .*int64 \[12, 3\]"),
    (IMAGES, LABELS > 0, "labels .*bool"),
    (IMAGES, LABELS + 1, r"label 3 of image 2 \(and 3 more\)"),
    (IMAGES, LABELS - 1, "label -1 of image 0 "),
    (IMAGES, np.full(TRAIN, 2**64 - 1, np.uint64), "label 18446744073709551615 of image 0"),
]


def test_arrays_that_are_no_labeled_images(tmp_path):
    for images, labels, message in ARRAYS:
        with pytest.raises(DataError, match=rf"numbers\.npz: .*{message}"):
            ImageArrays(images, labels, CLASSES, where="numbers.npz")
        with pytest.raises(DataError, match=rf"new: test: .*{message}"):
            write_images(tmp_path / "new", "X", CLASSES, splits()[0], (images, labels))
        assert not (tmp_path / "new").exists()


def test_coarse_labels_are_one_integer_per_class():
    for coarse in ([0, 1], [0, 1, -1], [[0, 1, 2]], [0.0, 1.0, 2.0], 3, ["a"] * 3):
        with pytest.raises(DataError, match="coarse_labels"):
            ImageArrays(IMAGES, LABELS, CLASSES, coarse_labels=coarse)
    with pytest.raises(DataError, match="5 users for 12 images"):
        ImageArrays(IMAGES, LABELS, CLASSES, users=list("aabbc"))


# ---------------------------------------------------------------- images in both splits


def test_shared_images_are_refused_counted_and_named(tmp_path):
    train, (images, labels) = splits()
    images = images.copy()
    images[2], images[4] = train[0][9], train[0][1]
    with pytest.raises(DataError, match=r"2 test images .*\(9, 2\)"):
        write_images(tmp_path / "new", "X", CLASSES, train, (images, labels))
    assert not (tmp_path / "new").exists()
    index = write_images(tmp_path / "new", "X", CLASSES, train, (images, labels), allow_shared=True)
    assert index["shared_images"] == read_index(tmp_path / "new" / INDEX)["shared_images"] == 2


# ---------------------------------------------------------------- missing, damaged, lying


def test_a_missing_file(prepared, tmp_path):
    for name in (INDEX, "train_images.npy", "train_labels.npy"):
        root = shutil.copytree(prepared, tmp_path / name)
        (root / name).unlink()
        with pytest.raises(MissingDataError, match=rf"{name}: is missing.*fedseg.*write_images"):
            StoredImages(root)
        if name != INDEX:
            assert len(StoredImages(root, "test")) == TEST


def test_pickles_are_never_loaded(prepared, tmp_path):
    trap = Payload(tmp_path / "unpickled")
    for name in ("train_images.npy", "train_labels.npy", "train_users.npy"):
        root = shutil.copytree(prepared, tmp_path / name)
        (root / name).write_bytes(pickle.dumps(trap))
        with pytest.raises(DataError, match=name):
            StoredImages(root)
        np.save(root / name, np.array([trap], dtype=object), allow_pickle=True)
        with pytest.raises(DataError, match=name):
            StoredImages(root)
    assert not (tmp_path / "unpickled").exists()


def test_random_damage_is_always_a_data_error(root):
    """Bytes of the headers changed, lost and added; every outcome is the whole set or DataError."""
    rng = random.Random(5)
    refused = 0
    for _ in range(300):
        path = root / rng.choice(["train_images.npy", "train_labels.npy"])
        whole = path.read_bytes()
        content, place = bytearray(whole), rng.randrange(130)
        if (kind := rng.randrange(3)) == 0:
            content[place] = rng.randrange(256)
        elif kind == 1:
            del content[place : place + rng.randrange(1, 9)]
        else:
            content[place:place] = bytes(rng.randrange(32, 127) for _ in range(2))
        path.write_bytes(content)
        try:
            dataset = StoredImages(root)
        except DataError:
            refused += 1
        else:
            assert np.array_equal(dataset.images, IMAGES)
            assert np.array_equal(dataset.labels, LABELS)
        path.write_bytes(whole)
    assert refused > 150


def test_one_changed_value_does_not_fit_the_checksum(prepared, tmp_path):
    for part in ("images", "labels"):
        root = shutil.copytree(prepared, tmp_path / part)
        array = np.load(root / f"test_{part}.npy")
        array.flat[7 % array.size] = (array.flat[7 % array.size] + 1) % 3
        np.save(root / f"test_{part}.npy", array)
        with pytest.raises(DataError, match=r"test_images\.npy: .*checksum"):
            StoredImages(root, "test")
        assert len(StoredImages(root)) == TRAIN


WRONG_INDEX = [
    (("splits", "train", "images"), 13, r"train_images\.npy: .*\[13, 6, 5, 3\]"),
    (("splits", "train", "shape"), [5, 6, 3], r"train_images\.npy: .*\[12, 5, 6, 3\]"),
    (("splits", "train", "sha256"), "0" * 64, r"train_images\.npy.*: .*checksum"),
    (("classes",), ["cat", "dog"], "2 classes|coarse_labels"),
    (("coarse_labels",), [0, 1], "coarse_labels"),
]
UNREADABLE_INDEX = [
    (("coarse_labels",), "abc"),
    (("splits", "train", "images"), -1),
    (("splits", "train", "shape"), [6, 5]),
    (("splits", "test"), {}),
    (("classes",), [1, 2, 3]),
    (("classes",), ["cat", "dog", "cat"]),
    (("classes",), ["cat", "dog", "\x1b[2Jx"]),
    (("shared_images",), -1),
    (("synthetic",), "False"),
]


def test_a_wrong_index(root):
    text = (root / INDEX).read_text()
    cases = [*WRONG_INDEX, *((*case, r"dataset\.json: ") for case in UNREADABLE_INDEX)]
    for keys, value, message in cases:
        (root / INDEX).write_text(text)
        change_index(root, *keys, value=value)
        with pytest.raises(DataError, match=message):
            StoredImages(root)
    for text in ("", "{", "[]", "3", "null", '"x"', "\xff\xfe", "{}"):
        (root / INDEX).write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError, match=r"dataset\.json: "):
            StoredImages(root)


# ---------------------------------------------------------------- writing


def test_a_write_that_is_cut_off_leaves_no_readable_folder(root, monkeypatch):
    """The old index goes first: new images under it would be taken for the old ones."""
    other = noise(TRAIN, seed=8), LABELS
    replace = os.replace
    for moment in range(1, 6):
        done = []

        def stop(*args, moment=moment, done=done):
            done.append(args)
            if len(done) == moment:
                raise KeyboardInterrupt
            replace(*args)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", stop)
            write_images(root, "Animals", CLASSES, other, splits()[1])
        with pytest.raises(MissingDataError):
            StoredImages(root)
    write_images(root, "Animals", CLASSES, other, splits()[1])
    assert np.array_equal(StoredImages(root).images, other[0])
    assert not list(root.glob("*.tmp"))


def test_content_does_not_depend_on_the_order_of_images():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 2, 2, 3), dtype=np.uint8)
    labels = np.array([0, 1, 2, 0, 1, 2])
    order = rng.permutation(6)
    digest = content_checksum(images, labels)
    assert content_checksum(images[order], labels[order]) == digest
    assert content_checksum(images, labels[::-1]) != digest  # other labels
    changed = images.copy()
    changed[3, 0, 0, 0] ^= 1
    assert content_checksum(changed, labels) != digest
    one = hashlib.sha256(images[0].tobytes() + bytes(8)).digest()
    assert content_checksum(images[:1], labels[:1]) == hashlib.sha256(one).hexdigest()


def test_synthetic_data_are_marked(tmp_path):
    assert not is_synthetic(tmp_path)
    for value in (True, False):
        (tmp_path / "dataset.json").write_text(json.dumps({"synthetic": value}))
        assert is_synthetic(tmp_path) == value
    for damaged in ("", "[]", "{"):
        (tmp_path / "dataset.json").write_text(damaged)
        assert not is_synthetic(tmp_path)
        with pytest.raises(DataError, match=r"dataset\.json"):
            is_synthetic(tmp_path, strict=True)
