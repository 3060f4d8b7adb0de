"""Splits of labeled images: their file, their note, and users from a CSV file."""

import json

import numpy as np
import pytest
from image_files import image_set

from fedseg.data_prep.image_partitions import named_partitions, read_users, save_split
from fedseg.datasets import ImageArrays
from fedseg.errors import DataError
from fedseg.partition import FixedPartition


@pytest.fixture
def dataset():
    images, labels = image_set(10, train=12)["train"]
    return ImageArrays(images, labels, [str(i) for i in range(10)])


def save(root, one, dataset, **more):
    clients = one.clients(dataset)
    return clients, save_split(root, one, dataset, clients, **more)


def test_file_is_what_fixed_partition_reads(tmp_path, dataset, capsys):
    for partition, name in (
        ("dirichlet", "dirichlet_alpha0.5_4clients_seed3"),
        ("homogeneous", "homogeneous_4clients_seed3"),
    ):
        (one,) = named_partitions(partition, [0.5], num_clients=4, seed=3, key="users", beta=10)
        clients, file = save(tmp_path, one, dataset)
        assert file == tmp_path / "splits" / f"{name}.json"
        assert capsys.readouterr().out == f"{file}: written\n"
        read = FixedPartition(file=file)(dataset)
        assert list(read) == list(clients) == ["0", "1", "2", "3"]
        for client in clients:
            np.testing.assert_array_equal(read[client], clients[client])
        note = json.loads(file.with_suffix(".note.json").read_text())
        assert note["seed"] == 3 and note["clients"] == 4 and note["images"] == 120
        assert note["images_sha256"] == dataset.split_checksum
        assert note["images_per_client"] == {"min": 30, "median": 30, "mean": 30, "max": 30}
        classes = [len(np.unique(dataset.labels[i])) for i in clients.values()]
        assert note["classes_per_client"]["mean"] == np.mean(classes)


def test_the_same_split_is_left_and_another_refused(tmp_path, dataset, capsys):
    (one,) = named_partitions("homogeneous", num_clients=4, seed=0)
    _, file = save(tmp_path, one, dataset)
    before = file.read_bytes()
    capsys.readouterr()
    assert save(tmp_path, one, dataset)[1] == file
    assert capsys.readouterr().out == f"{file}: already exists, unchanged\n"
    assert file.read_bytes() == before
    for other in (b'{"0": [1]}', b"\xff\xfe"):
        file.write_bytes(other)
        with pytest.raises(DataError, match=rf"{file}: .*another split.*--overwrite"):
            save(tmp_path, one, dataset)
    save(tmp_path, one, dataset, overwrite=True)
    assert file.read_bytes() == before


# ---- users from a CSV file


def write_users(path, labels, order=None):
    """In the form of Hsu et al.: user, index, class."""
    order = range(len(labels)) if order is None else order
    rows = [f"{i % 7},{i},{labels[i]}" for i in order]
    path.write_text("user_id,image_id,class\n" + "\n".join(rows) + "\n")
    return path


def test_natural_by_a_csv_file(tmp_path, dataset):
    order = np.random.default_rng(0).permutation(120)
    path = write_users(tmp_path / "hsu.csv", dataset.labels, order)
    (one,) = named_partitions("natural", users=path, key="users", num_clients=100, seed=0)
    clients, file = save(tmp_path, one, dataset)
    assert file.name == "natural_hsu.json"
    assert {c: i.tolist() for c, i in clients.items()} == {
        str(user): list(range(user, 120, 7)) for user in range(7)
    }


def test_rows_in_order_or_by_index(tmp_path):
    path = tmp_path / "users.csv"
    for text, users in (
        ("user_id\nanna\nbert\nanna\n", ["anna", "bert", "anna"]),
        ("user_id,,\nanna,,\nbert,,\nanna,,\n", ["anna", "bert", "anna"]),
        ("user_id, image_id\nanna, 2\nbert, 1\ncleo, 0\n", ["cleo", "bert", "anna"]),
    ):
        path.write_text(text)
        assert read_users(path, np.zeros(3, int)) == users


def test_every_alpha_has_its_own_file():
    alphas = [0, 0.05, 100.0, 1, 0.12345671, 0.12345672, 0.05]  # the last one is there already
    names = [one.name for one in named_partitions("dirichlet", alphas, num_clients=4, seed=0)]
    shown = ["0", "0.05", "100", "1", "0.12345671", "0.12345672"]
    assert names == [f"dirichlet_alpha{alpha}_4clients_seed0" for alpha in shown]


def test_faulty_users(tmp_path):
    path = tmp_path / "users.csv"
    for text, message in (
        ("", "user_id"),
        ("anna\nbert\n", "user_id"),
        ("user_id,image_id\na,0\na,1\n", "1 of 3 images"),
        ("user_id,image_id\na,0\na,1\na,1\n", "line 4: image_id '1'"),
        ("user_id,image_id\na,0\na,1\na,3\n", "line 4: image_id '3'"),
        ("user_id,image_id\na,0\na,-1\na,2\n", "line 3: image_id '-1'"),
        ("user_id,image_id\na,0\n,1\na,2\n", "line 3: .*user_id"),
        ("user_id,user_id,image_id\na,z,0\nb,z,1\nc,z,2\n", "two columns 'user_id'"),
        ("user_id,image_id,class\na,0,5\na,1,5\na,2,5\n", "line 3: image_id '1'.*class 6"),
        ("user_id,Image_ID\na,2\na,1\na,0\n", "column 'Image_ID', none of user_id"),
        ("user_id,image_id\na,\nb,\nc,\n", "line 2: image_id ''"),
        ("user_id,image_id\na,0\nb,1_1\nc,2\n", "line 3: image_id '1_1'"),
        ("user_id,image_id,class\na,0,5\nb,1,\nc,2,5\n", "line 3: .*class 6, not ''"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_users(path, np.array([5, 6, 7]))
