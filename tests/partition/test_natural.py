"""Partitions of a data set into clients."""

import json

import numpy as np
import pytest

from fedseg import registry
from fedseg.errors import ConfigError, DataError
from fedseg.partition import FixedPartition, NaturalPartition, SinglePartition


class Samples:
    users = ["b", "a", "b", "c"]
    domains = ["T02", "T02", "T01", "T01"]

    def __len__(self):
        return 4


def build(**config):
    return registry.build(registry.PARTITIONS, config, "partition")(Samples())


def as_lists(clients):
    assert all(indices.dtype == np.int64 for indices in clients.values())
    return {client: indices.tolist() for client, indices in clients.items()}


def test_natural_groups_in_order_of_first_appearance():
    clients = as_lists(build(type="NaturalPartition"))
    assert list(clients.items()) == [("b", [0, 2]), ("a", [1]), ("c", [3])]
    assert as_lists(build(type="NaturalPartition", key="domains")) == {"T02": [0, 1], "T01": [2, 3]}


def test_single_holds_everything():
    assert as_lists(build(type="SinglePartition")) == {"all": [0, 1, 2, 3]}
    assert list(build(type="SinglePartition", client="center")) == ["center"]


def test_fixed_from_config_and_file(tmp_path):
    clients = {"x": [3, 0], "y": [1]}
    assert as_lists(build(type="FixedPartition", clients=clients)) == clients
    (tmp_path / "clients.json").write_text(json.dumps(clients))
    assert as_lists(build(type="FixedPartition", file=str(tmp_path / "clients.json"))) == clients


def test_fixed_refuses_a_file_that_was_made_of_other_images(tmp_path):
    file, note = tmp_path / "clients.json", tmp_path / "clients.note.json"
    file.write_text('{"x": [3, 0], "y": [1, 2]}')
    dataset = Samples()
    for noted, checksum, same in (
        ({"images_sha256": "0"}, "0", True),
        ({"images_sha256": "0"}, "1", False),
        ({"images_sha256": "0"}, None, True),
        ({}, "1", True),
        (["somebody else's"], "1", True),
    ):
        note.write_text(json.dumps(noted))
        dataset.split_checksum = checksum
        partition = FixedPartition(file=file)
        if same:
            assert len(partition(dataset)) == 2
        else:
            with pytest.raises(DataError, match=r"clients\.json: .* other images"):
                partition(dataset)


def test_natural_needs_one_value_per_sample():
    with pytest.raises(ConfigError, match=r"partition\.key: .*'towns'"):
        build(type="NaturalPartition", key="towns")
    with pytest.raises(ConfigError, match=r"partition\.key: .*'__len__' for each"):
        build(type="NaturalPartition", key="__len__")
    dataset = Samples()
    dataset.users = ["a"]
    with pytest.raises(ConfigError, match=r"partition\.key: .*'users' .*4 samples"):
        NaturalPartition()(dataset)


def test_fixed_refuses():
    for clients, message in (
        ({}, "no client"),
        ({"x": [0], "y": []}, "client 'y' has no sample"),
        ({"x": [0, 4]}, "client 'x' has index 4"),
        ({"x": [-1]}, "index -1"),
        ({"x": [0, 1], "y": [1]}, "client 'y' has sample 1, .*'x'"),
        ({"": [0]}, "client '' must"),
        ({"a\0b": [0]}, "client .* must"),
        ({"x": [0, 0]}, "client 'x' has a sample twice"),
        ({"x": [0.5]}, "client 'x' must have"),
        ({"1": [0], 1: [1]}, "client '1' occurs twice"),
    ):
        with pytest.raises(ConfigError, match=rf"partition\.clients: .*{message}"):
            FixedPartition(clients=clients)(Samples())


def test_fixed_refuses_bad_files_and_both_sources(tmp_path):
    with pytest.raises(DataError, match=r"none\.json"):
        build(type="FixedPartition", file=str(tmp_path / "none.json"))
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(DataError, match=r"list\.json"):
        build(type="FixedPartition", file=str(tmp_path / "list.json"))
    with pytest.raises(ConfigError, match="either clients or file"):
        build(type="FixedPartition")


def test_empty_dataset_is_refused():
    with pytest.raises(ConfigError, match="has no sample"):
        SinglePartition()([])
