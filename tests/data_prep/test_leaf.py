"""FEMNIST and Shakespeare: samples and users of the files, and files that are damaged."""

import json

import h5py
import numpy as np
import pytest
from leaf_files import USERS, write_femnist, write_shakespeare

from fedseg.data_prep.leaf import FEMNIST, SHAKESPEARE
from fedseg.datasets import FEMNISTDataset, ShakespeareDataset
from fedseg.partition import NaturalPartition


def test_shakespeare(tmp_path, prepare):
    source, root = write_shakespeare(tmp_path / "leaf", 40, 5), tmp_path / "root"
    out = prepare("shakespeare", "--source", source, "--root", root)
    assert "40 + 5 images" in out and "train shakespeare --dry-run" in out
    train, test = ShakespeareDataset(root), ShakespeareDataset(root, "test")
    assert list(NaturalPartition()(train)) == USERS and len(test) == 5
    files = [json.loads(path.read_text()) for path in sorted((source / "train").iterdir())]
    roles = [role for content in files for role in content["user_data"].values()]
    assert [train.classes[n] for n in train.labels] == [y for role in roles for y in role["y"]]
    texts = ["".join(train.classes[n] for n in image) for image in train.images[..., 0, 0]]
    assert texts == [x for role in roles for x in role["x"]]
    assert train.classes == SHAKESPEARE.classes
    assert "is prepared already" in prepare("shakespeare", "--root", root)


def test_femnist(tmp_path, prepare):
    write_femnist(tmp_path, 40, 5)
    out = prepare("femnist", "--root", tmp_path)
    assert "40 + 5 images" in out and "train femnist --dry-run" in out
    train = FEMNISTDataset(tmp_path)
    assert train.classes == FEMNIST.classes and list(NaturalPartition()(train)) == USERS
    with h5py.File(tmp_path / "fed_emnist_train.h5") as file:
        samples = [file[f"examples/{user}"] for user in USERS]
        pixels = np.concatenate([sample["pixels"] for sample in samples]).astype(float)
        labels = np.concatenate([sample["label"] for sample in samples])
    np.testing.assert_array_equal(train.images[..., 0], np.rint(255 * pixels))
    np.testing.assert_array_equal(train.labels, labels)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("pixels", np.full((2, 28, 28), 1.5), "from 0 to 1"),
        ("pixels", np.zeros((2, 784)), "[n, 28, 28]"),
        ("label", [0, 1, 2], "an integer for each image"),
        ("label", [0.5, 1.0], "an integer for each image"),
        ("label", [0, 62], "out of range: 62 classes"),
    ],
)
def test_damaged_femnist(tmp_path, prepare, name, values, message):
    write_femnist(tmp_path, 24, 12)
    with h5py.File(tmp_path / "fed_emnist_train.h5", "a") as file:
        samples = file[f"examples/{USERS[0]}"]
        del samples[name]
        samples[name] = values
    assert message in prepare.fails("femnist", "--root", tmp_path)


def test_femnist_that_is_not_there(tmp_path, prepare):
    write_femnist(tmp_path, 24, 12)
    file = tmp_path / "fed_emnist_test.h5"
    file.write_bytes(b"no HDF5")
    assert f"{file}: is not FEMNIST in HDF5" in prepare.fails("femnist", "--root", tmp_path)
    file.unlink()
    assert f"{file}: is missing" in prepare.fails("femnist", "--root", tmp_path)


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("x", ["a" * 79] * 3, "80"),
        ("x", ["%" * 80] * 3, "'%', which is no class"),
        ("x", ["\u4e00" * 80] * 3, "which is no class"),
        ("x", ["a" * 80] * 2, "2 texts, but 3 labels"),
        ("y", ["ab", "c", "d"], "y"),
        ("y", "abc", "y"),
    ],
)
def test_damaged_shakespeare(tmp_path, prepare, key, values, message):
    source = write_shakespeare(tmp_path / "leaf", 36, 5)
    file = source / "train" / "all_data_0.json"
    content = json.loads(file.read_text())
    content["user_data"][USERS[0]][key] = values
    file.write_text(json.dumps(content))
    words = ("shakespeare", "--source", source, "--root", tmp_path / "root")
    told = prepare.fails(*words)
    assert message in told and str(source / "train") in told
    file.write_text((source / "train" / "all_data_1.json").read_text())
    assert "is in another file, too" in prepare.fails(*words)
    for path in (source / "train").iterdir():
        path.unlink()
    assert "has no *.json" in prepare.fails(*words)
