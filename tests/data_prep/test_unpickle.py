"""Pickled batches: what the official form holds is read, anything else is refused and not run."""

import os
import pickle

import numpy as np
import pytest
from data_prep.unpickle import unpickle_batch
from image_files import noise, old_pickle

from fedseg.errors import DataError

DATA = noise(3).reshape(3, -1)


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_reads_the_official_form():
    content = {"data": DATA, "labels": [3, 1, 2], "label_names": ["cat", "dog"]}
    data = old_pickle(content)
    assert b"cnumpy.core.multiarray\n_reconstruct" in data  # as NumPy 1 wrote it
    found = unpickle_batch(data, "batch")
    np.testing.assert_array_equal(found["data"], DATA)
    assert found["labels"] == [3, 1, 2]
    assert found["label_names"] == ["cat", "dog"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_what_python_3_writes(protocol, order):
    array = np.asarray(DATA, order=order)
    found = unpickle_batch(pickle.dumps({b"data": array, "n": [1]}, protocol), "batch")
    np.testing.assert_array_equal(found["data"], DATA)
    assert found["n"] == [1]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_command_is_not_run(tmp_path, protocol):
    mark = tmp_path / "was_here"
    data = pickle.dumps({"data": Command(f"touch {mark}"), "labels": []}, protocol)
    with pytest.raises(DataError, match=r"data_batch_1: the pickle asks for \w+\.system"):
        unpickle_batch(data, "data_batch_1")
    assert not mark.exists()
    pickle.loads(data)  # it would have been
    assert mark.exists()


@pytest.mark.parametrize(
    "name", ["builtins\neval", "builtins\ngetattr", "numpy\nload", "numpy.core.multiarray\nscalar"]
)
def test_no_other_name_is_looked_up(name):
    with pytest.raises(DataError, match="asks for"):
        unpickle_batch(b"c" + name.encode() + b"\n.", "batch")


@pytest.mark.parametrize("dtype", ["float32", "int64", "object"])
def test_arrays_of_another_dtype_are_refused(dtype):
    with pytest.raises(DataError, match="must be uint8"):
        unpickle_batch(pickle.dumps({"data": np.ones((2, 3072), dtype)}, 2), "batch")


def test_an_array_must_fit_its_bytes():
    data = old_pickle({"data": DATA})
    shape = pickle.dumps((3, 3072), 2)[2:-1]
    assert data.count(b"K\x03M\x00\x0c\x86") == 1, shape
    larger = data.replace(b"K\x03M\x00\x0c\x86", b"K\x09M\x00\x0c\x86")
    with pytest.raises(DataError, match="is damaged"):
        unpickle_batch(larger, "batch")


@pytest.mark.parametrize("cut", [0, 1, 40, 2000, -1])
def test_cut_short(cut):
    with pytest.raises(DataError, match=r"batch: is damaged.*official archive"):
        unpickle_batch(old_pickle({"data": DATA, "labels": [0, 1, 2]})[:cut], "batch")


def test_must_be_a_dictionary():
    with pytest.raises(DataError, match="holds a list"):
        unpickle_batch(pickle.dumps([1, 2]), "batch")
