"""The client state store: staged, committed, saved, reloaded, cleaned up."""

import pickle

import pytest
import torch
from faults import Payload

from fedseg.errors import DataError
from fedseg.files import sha256
from fedseg.runner.state_store import StateStore, save_tensors

MODES = pytest.mark.parametrize("keep", ["memory", "disk"])


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"sigma": torch.full((5,), value), "count": torch.tensor(int(value))}


def put(store: StateStore, key: str, value: float, round_: int) -> None:
    store.stage(key, tensors(value))
    store.commit(round_)


def value(store: StateStore, key: str) -> float:
    got = store.get(key)
    assert set(got) == {"sigma", "count"} and got["count"] == int(got["sigma"][0])
    return float(got["sigma"][0])


@MODES
def test_stage_commit_discard(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    assert store.get("a") == {} and store.keys() == []
    store.stage("a", tensors(1))
    store.stage("b", tensors(2))
    assert store.get("a") == {}, "staged is not current"
    store.discard("b")
    store.commit(1)
    assert value(store, "a") == 1 and store.keys() == ["a"]
    store.stage("a", tensors(3))
    store.discard()
    store.commit(2)
    assert value(store, "a") == 1
    store.discard("never staged")


@MODES
def test_what_is_staged_is_a_copy(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    live = tensors(1)
    store.stage("a", live)
    live["sigma"].fill_(9)
    store.commit(1)
    live["sigma"].fill_(8)
    assert value(store, "a") == 1


@MODES
def test_every_index_keeps_its_version(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    indexes = []
    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        indexes.append(store.state_dict())
    assert len({i["a"]["file"] for i in indexes}) == 3
    for round_, index in enumerate(indexes, start=1):
        other = StateStore(tmp_path, keep)
        other.load_state_dict(index)
        assert value(other, "a") == round_
    put(store, "a", 4, 4)
    store.load_state_dict(indexes[0])
    assert value(store, "a") == 1, "back to the index, with nothing of later rounds"
    assert store.state_dict() == indexes[0], "nothing unsaved is left over"


@MODES
def test_flush_writes_only_what_changed(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    put(store, "a", 1, 1)
    put(store, "b", 1, 1)
    store.state_dict()
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    put(store, "b", 2, 2)
    index = store.state_dict()
    after = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert len(after) == 3 and all(after[name] == before[name] for name in before)
    assert index["a"]["file"] in before and index["b"]["file"] not in before


@MODES
def test_dtypes_and_bits_come_back(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    exact = {
        "f64": torch.rand(3, dtype=torch.float64),
        "nan": torch.tensor([float("nan"), -0.0, 1e-45]),
        "i": torch.tensor(3),
        "empty": torch.empty(0),
        "2d": torch.rand(2, 3).t(),
    }
    store.stage("a", exact)
    store.commit(1)
    other = StateStore(tmp_path, keep)
    other.load_state_dict(store.state_dict())
    for name, tensor in exact.items():
        got = other.get("a")[name]
        assert got.dtype == tensor.dtype and got.shape == tensor.shape
        assert got.numpy().tobytes() == tensor.numpy().tobytes()


def test_a_slice_is_saved_without_its_storage(tmp_path):
    store = StateStore(tmp_path, "disk")
    store.stage("a", {"part": torch.rand(1_000_000)[:3]})
    store.commit(1)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) < 10_000


def test_keys_that_become_the_same_name(tmp_path):
    keys = ["a/b", "a b", "a_b", "a__b", "../a_b", "é", "ü", "x" * 100, "x" * 101, ""]
    store = StateStore(tmp_path / "state", "disk")
    for number, key in enumerate(keys):
        put(store, key, number, 1)
    index = store.state_dict()
    assert len({entry["file"] for entry in index.values()}) == len(keys)
    other = StateStore(tmp_path / "state", "memory")
    other.load_state_dict(index)
    assert [value(other, key) for key in keys] == list(range(len(keys)))
    assert list(tmp_path.iterdir()) == [tmp_path / "state"], "no key leaves the folder"


@MODES
def test_garbage_is_what_no_index_needs(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    indexes = []
    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        put(store, f"once{round_}", round_, round_)
        indexes.append(store.state_dict())
    (tmp_path / "half-written.pt.tmp").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("not ours")
    store.collect_garbage(indexes[1:])
    names = {p.name for p in tmp_path.iterdir()}
    assert indexes[0]["a"]["file"] not in names and "half-written.pt.tmp" not in names
    assert "notes.txt" in names
    for index in indexes[1:]:
        store.verify(index)
    store.delete("once1")
    store.collect_garbage([])
    assert not list(tmp_path.glob("once1*"))
    assert value(store, "a") == 3


def test_between_two_indexes_only_the_newest_version_stays(tmp_path):
    """On disk; what an index refers to stays until it is garbage, the resumed store's index too."""
    store = StateStore(tmp_path, "disk")

    def versions():
        return len(list(tmp_path.iterdir()))

    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        assert versions() == 1
    put(store, "a", 4, 3)
    assert versions() == 1 and value(store, "a") == 4, "a round may be committed again"
    index = store.state_dict()
    for round_ in (5, 6, 7):
        put(store, "a", round_, round_)
        assert versions() == 2
    other = StateStore(tmp_path, "disk")
    other.load_state_dict(index)
    for round_ in (4, 5):
        put(other, "a", round_, round_)
    other.verify(index)
    newer = other.state_dict()
    other.collect_garbage([newer])
    assert versions() == 1 and value(other, "a") == 5
    put(other, "a", 6, 6)
    assert versions() == 2


def test_garbage_of_a_folder_that_does_not_exist(tmp_path):
    StateStore(tmp_path / "none").collect_garbage([])


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "outside"])
def test_damage_is_noticed(tmp_path, damage):
    store = StateStore(tmp_path / "s")
    put(store, "client one", 1, 1)
    index = store.state_dict()
    path = tmp_path / "s" / index["client one"]["file"]
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-1])
    elif damage == "flipped":
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    else:
        index["client one"]["file"] = f"../s/{path.name}"
    other = StateStore(tmp_path / "s")
    other.stage("kept", tensors(1))
    with pytest.raises(DataError, match="client one"):
        other.load_state_dict(index)
    assert other.keys() == [], "a failed load changes nothing"


def test_no_foreign_object_is_unpickled(tmp_path):
    store = StateStore(tmp_path, "disk")
    put(store, "a", 1, 1)
    index = store.state_dict()
    path = tmp_path / index["a"]["file"]
    torch.save({"sigma": Payload(tmp_path / "pwned")}, path)
    index["a"]["sha256"] = sha256(path)
    other = StateStore(tmp_path, "disk")
    other.load_state_dict(index)
    with pytest.raises(Exception, match=r"(?i)weights.only"):
        other.get("a")
    assert not (tmp_path / "pwned").exists()


def test_files_read_lazily_outlive_garbage_collection(tmp_path):
    store = StateStore(tmp_path, "disk")
    put(store, "a", 1, 1)
    held = store.get("a")
    put(store, "a", 2, 2)
    store.collect_garbage([])
    assert held["sigma"].sum() == 5 and value(store, "a") == 2


@MODES
def test_a_look_up_reads_when_it_is_used(tmp_path, keep):
    store = StateStore(tmp_path, keep)
    looked_up = store.look_up("a")
    assert not looked_up and dict(looked_up.items()) == {}
    put(store, "a", 1, 1)
    assert set(looked_up) == {"sigma", "count"} and len(looked_up) == 2
    assert looked_up["sigma"].sum() == 5
    put(store, "a", 2, 2)
    assert dict(looked_up.items())["sigma"].sum() == 10
    there = pickle.loads(pickle.dumps(looked_up))
    assert type(there) is dict and there["sigma"].sum() == 10
    assert set(vars(looked_up)) == {"_store", "_key"}, "no tensor is held"


def test_save_tensors_makes_folders_and_tells_the_digest(tmp_path):
    path = tmp_path / "deep" / "er" / "x.pt"
    digest = save_tensors(path, {"a": 1})
    assert digest == sha256(path) and [p.name for p in path.parent.iterdir()] == ["x.pt"]
