"""FEMNIST and Shakespeare: samples and users of the files, and files that are damaged."""

import json

import numpy as np
import pytest
from leaf_files import USERS, write_leaf

from fedseg.data_prep.image_sets import FEMNIST, SHAKESPEARE
from fedseg.datasets import FEMNISTDataset, ShakespeareDataset
from fedseg.partition import NaturalPartition


@pytest.mark.parametrize("name", ["femnist", "shakespeare"])
def test_what_the_files_say(tmp_path, prepare, name):
    source, root = write_leaf(tmp_path / "leaf" / "data", name, 40, 5), tmp_path / "root"
    out = prepare(name, "--source", tmp_path / "leaf", "--root", root)
    kind = {"femnist": FEMNISTDataset, "shakespeare": ShakespeareDataset}[name]
    assert "40 + 5 images" in out and f"train {name} --dry-run" in out
    train, test = kind(root), kind(root, "test")
    assert list(NaturalPartition()(train)) == USERS and len(test) == 5
    files = [json.loads(path.read_text()) for path in sorted((source / "train").iterdir())]
    held = {user: own for content in files for user, own in content["user_data"].items()}
    labels = [label for own in held.values() for label in own["y"]]
    samples = [sample for own in held.values() for sample in own["x"]]
    if name == "femnist":
        assert train.labels.tolist() == labels and train.classes == FEMNIST.classes
        np.testing.assert_array_equal(train.images.reshape(40, -1) / 255, samples)
    else:
        assert [train.classes[n] for n in train.labels] == labels
        texts = ["".join(train.classes[n] for n in image) for image in train.images[..., 0, 0]]
        assert texts == samples and train.classes == SHAKESPEARE.classes
    assert "is prepared already" in prepare(name, "--root", root)


def test_the_files_of_tensorflow_federated(tmp_path, prepare):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    for split, count in (("test", 1), ("train", 3)):
        with h5py.File(tmp_path / f"fed_emnist_{split}.h5", "w") as file:
            for user in USERS[:2]:
                pixels = rng.random((count, 28, 28), np.float32)
                file[f"examples/{user}/pixels"] = pixels
                file[f"examples/{user}/label"] = np.arange(count, dtype=np.int32)
    prepare("femnist", "--root", tmp_path)
    train = FEMNISTDataset(tmp_path)
    assert train.users == [user for user in USERS[:2] for _ in range(3)]
    assert train.labels.tolist() == [0, 1, 2] * 2
    np.testing.assert_array_equal(train.images[3:, ..., 0], np.rint(255 * pixels.astype(float)))
    (tmp_path / "fed_emnist_train.h5").write_bytes(b"no HDF5")
    (tmp_path / "dataset.json").unlink()
    assert "cannot be read as HDF5" in prepare.fails("femnist", "--root", tmp_path)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("femnist", lambda own: own["x"].pop(), "samples, not"),
        ("femnist", lambda own: own["y"].pop(), "3 samples have 2 labels"),
        ("femnist", lambda own: own["x"][0].pop(), "inhomogeneous"),
        ("femnist", lambda own: own.update(x=[[0.0] * 783] * 3), "28x28 of each"),
        ("femnist", lambda own: own.update(x=np.zeros((3, 392, 2)).tolist()), "28x28 of each"),
        ("femnist", lambda own: own.update(x=[["0.5"] * 784] * 3), "must be numbers"),
        ("femnist", lambda own: own["x"][0].__setitem__(5, 1.5), "gray values from 0 to 1"),
        ("femnist", lambda own: own["x"][0].__setitem__(5, "a"), "must be numbers"),
        ("femnist", lambda own: own.update(y=[0.5] * 3), "whole numbers"),
        ("femnist", lambda own: own.update(y=[True] * 3), "whole numbers"),
        ("femnist", lambda own: own.update(y=[[1]] * 3), "whole numbers"),
        ("femnist", lambda own: own.update(y=[10**30] * 3), "whole numbers"),
        ("femnist", lambda own: own.update(y=[62] * 3), "out of range: 62 classes"),
        ("femnist", lambda own: own.pop("y"), "is no file of LEAF"),
        ("shakespeare", lambda own: own.update(x=["a" * 79] * 3), "texts of 80 characters"),
        ("shakespeare", lambda own: own.update(x=["%" * 80] * 3), "that are no classes"),
        ("shakespeare", lambda own: own.update(x=["\u4e00" * 80] * 3), "can't encode"),
        ("shakespeare", lambda own: own.update(y=["ab"] * 3), "must be characters"),
        ("shakespeare", lambda own: own.update(y="abc"), "must be characters"),
        ("shakespeare", lambda own: own.update(y=["ab", "", "c"]), "must be characters"),
    ],
)
def test_damaged_files(tmp_path, prepare, name, damage, message):
    source = write_leaf(tmp_path / "leaf", name, 36, 5)
    file = source / "train" / "all_data_0.json"
    content = json.loads(file.read_text())
    damage(content["user_data"][USERS[2]])
    file.write_text(json.dumps(content))
    error = prepare.fails(name, "--source", source, "--root", tmp_path / "root")
    assert message in error and not (tmp_path / "root").exists()
    assert str(source) in error


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content["user_data"].pop(USERS[2]), "users are not those of user_data"),
        (lambda content: content["users"].pop(), "longer"),
        (lambda c: (c["users"].append(USERS[0]), c["num_samples"].append(3)), "each once"),
        (lambda content: content.update(users=[], num_samples=[], user_data={}), "train: has no"),
    ],
)
def test_users_that_are_incomplete_or_doubled(tmp_path, prepare, damage, message):
    source, arguments = write_leaf(tmp_path / "leaf", "femnist", 36, 5), ("--root", tmp_path / "r")
    first, second = sorted((source / "train").iterdir())
    content = json.loads(first.read_text())
    second.write_bytes(first.read_bytes())
    error = prepare.fails("femnist", "--source", source, *arguments)
    assert f"{second}: user '{USERS[0]}' is in {first}, too" in error
    second.unlink()
    damage(content)
    first.write_text(json.dumps(content))
    assert message in prepare.fails("femnist", "--source", source, *arguments)
    assert not (tmp_path / "r").exists()


HUGE = {"shape": (10**9, 28, 28), "dtype": "f4", "chunks": (1, 28, 28)}  # only declared


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"pixels": HUGE}, "shapes"),
        ({"label": {"shape": (10**12,), "dtype": "i8", "chunks": (9,)}}, "shapes"),
        (
            {"pixels": HUGE, "label": {"shape": (10**9,), "dtype": "i4", "chunks": (9,)}},
            "shapes (1000000000, 28, 28) and (1000000000,)",
        ),
        ({"pixels": {**HUGE, "shape": (3, 28, 28), "dtype": "S1000000"}}, "types"),
        ({"pixels": {"data": np.zeros((28, 28, 3))}}, "shapes"),
        ({"label": {"data": np.zeros((3, 1), int)}}, "shapes"),
        ({"label": {"data": np.ones(3)}}, "types"),
        ({"label": {"data": 3}}, "shapes"),
    ],
)
def test_damaged_hdf5(tmp_path, prepare, damage, message):
    h5py = pytest.importorskip("h5py")
    for split in ("train", "test"):
        with h5py.File(tmp_path / f"fed_emnist_{split}.h5", "w") as file:
            own = {"pixels": {"data": np.zeros((3, 28, 28))}, "label": {"data": np.arange(3)}}
            for key, value in (own | (damage if split == "train" else {})).items():
                file.create_dataset(f"examples/a/{key}", **value)
    error = prepare.fails("femnist", "--root", tmp_path)
    assert f"fed_emnist_train.h5: cannot be read as HDF5 (user 'a' has {message}" in error


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["dirichlet"], "--alpha"),
        (["dirichlet-class", "--num-clients", "4"], "--alpha"),
        (["dirichlet", "--alpha", "1"], "--num-clients"),
        (["homogeneous"], "--num-clients"),
    ],
)
def test_a_split_without_its_usual_options(tmp_path, prepare, given, missing):
    source, root = write_leaf(tmp_path / "leaf", "femnist", 40, 5), tmp_path / "root"
    arguments = ("femnist", "--source", source, "--root", root, "--partition", *given)
    told = prepare.fails(*arguments)
    assert f"{missing}: FEMNIST has no usual one: give it" in told and not root.exists()
    prepare(*arguments, "--partition", "dirichlet", "--alpha", "1", "--num-clients", "4")
    assert (root / "splits" / "dirichlet_alpha1_4clients_seed0.json").is_file()


def test_what_leaf_lacks(tmp_path, prepare):
    error = prepare.fails("femnist", "--root", tmp_path)
    assert "train/*.json" in error and "--source" in error and "--download" not in error
    error = prepare.fails("femnist", "--root", tmp_path / "none")
    assert "--source" in error and not any(f"--{way}" in error for way in ("download", "synth"))
    for option in ("--download", "--synthetic", "--from=x"):
        error = prepare.fails("femnist", "--root", tmp_path, option)
        assert f"unrecognized arguments: {option}" in error
    (tmp_path / "fed_emnist_train.h5").touch()
    (tmp_path / "fed_emnist_test.h5").touch()
    assert "train/*.json" in prepare.fails("shakespeare", "--root", tmp_path)
