"""The clients' states: staged, committed, saved with checkpoints, restored, cleaned up."""

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from faults import Payload

from fedseg.errors import ConfigError, DataError
from fedseg.files import sha256
from fedseg.runner import state_store
from fedseg.runner.state_store import StateStore, save_tensors


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "states.sqlite")


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"sigma": torch.full((5,), value), "count": torch.tensor(int(value))}


def put(store: StateStore, key: str, value: float, round_: int) -> None:
    store.stage(key, round_, tensors(value))
    store.commit()


def value(store: StateStore, key: str) -> float:
    got = store.get(key)
    assert set(got) == {"sigma", "count"} and got["count"] == int(got["sigma"][0])
    return float(got["sigma"][0])


def rows(store: StateStore) -> set[tuple[int, str]]:
    with closing(sqlite3.connect(store.path)) as database:
        return set(database.execute("SELECT round, key FROM states"))


def test_stage_commit_discard(store):
    assert store.get("a") == {} and store.keys() == []
    store.stage("a", 1, tensors(1))
    assert store.get("a") == {} and store.keys() == [], "staged is not current"
    store.commit()
    assert value(store, "a") == 1 and store.keys() == ["a"]
    store.stage("a", 2, tensors(3))
    assert value(store, "a") == 1
    store.discard()
    store.commit()
    assert value(store, "a") == 1 and rows(store) == {(1, "a")}


def test_what_is_staged_is_a_copy(store):
    live = tensors(1)
    store.stage("a", 1, live)
    live["sigma"].fill_(9)
    store.commit()
    assert value(store, "a") == 1


def test_every_index_keeps_its_rows(store):
    indexes = []
    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        indexes.append(store.state_dict())
    for round_, index in enumerate(indexes, start=1):
        other = StateStore(store.path)
        other.load_state_dict(index)
        assert value(other, "a") == round_
    put(store, "a", 4, 4)
    store.load_state_dict(indexes[0])
    assert value(store, "a") == 1 and store.state_dict() == indexes[0]
    assert rows(store) == {(round_, "a") for round_ in (1, 2, 3, 4)}, "reading deletes nothing"
    put(store, "b", 2, 2)
    assert rows(store) == {(1, "a"), (2, "b")}, "the next commit deletes what came later"


def test_a_new_run_deletes_the_rows_of_an_earlier_one(store):
    put(store, "a", 1, 1)
    other = StateStore(store.path)
    assert other.get("a") == {}
    put(other, "b", 1, 1)
    assert rows(other) == {(1, "b")}


def test_between_two_checkpoints_only_the_newest_row_stays(store):
    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        assert rows(store) == {(round_, "a")}
    put(store, "a", 4, 3)
    put(store, "b", 4, 3)
    assert rows(store) == {(3, "a"), (3, "b")} and value(store, "a") == 4, "a round's second commit"
    store.state_dict()
    for round_ in (5, 6, 7):
        put(store, "a", round_, round_)
        assert rows(store) == {(3, "a"), (3, "b"), (round_, "a")}


def test_rows_that_no_kept_checkpoint_needs_are_deleted(store):
    store.delete_before(1)  # no file yet
    indexes = []
    for round_ in (1, 2, 3):
        put(store, "a", round_, round_)
        put(store, f"once{round_}", round_, round_)
        indexes.append(store.state_dict())
    store.delete_before(2)
    assert rows(store) == {(1, "once1"), (2, "a"), (2, "once2"), (3, "a"), (3, "once3")}
    for index in indexes[1:]:
        StateStore(store.path).load_state_dict(index)
    with pytest.raises(DataError, match="'a' of round 1 is missing"):
        StateStore(store.path).load_state_dict(indexes[0])


def test_dtypes_and_bits_come_back(store):
    exact = {
        "f64": torch.rand(3, dtype=torch.float64),
        "nan": torch.tensor([float("nan"), -0.0, 1e-45]),
        "i": torch.tensor(3),
        "empty": torch.empty(0),
        "2d": torch.rand(2, 3).t(),
    }
    store.stage("../a/b'; -- é", 1, exact)
    store.commit()
    other = StateStore(store.path)
    other.load_state_dict(store.state_dict())
    for name, tensor in exact.items():
        got = other.get("../a/b'; -- é")[name]
        assert got.dtype == tensor.dtype and got.shape == tensor.shape
        assert got.numpy().tobytes() == tensor.numpy().tobytes()


def test_a_slice_is_saved_without_its_storage(store):
    store.stage("a", 1, {"part": torch.rand(1_000_000)[:3]})
    store.commit()
    assert store.path.stat().st_size < 500_000


def test_a_state_that_sqlite_cannot_hold_is_refused(store, monkeypatch):
    monkeypatch.setattr(state_store, "LARGEST", 100)
    with pytest.raises(ConfigError, match=r"state of 'a': has .*, must have at most"):
        store.stage("a", 1, tensors(1))


@pytest.mark.parametrize("damage", ["missing", "truncated", "another file", "changed", "no row"])
def test_damage_is_noticed(store, damage):
    put(store, "client one", 1, 1)
    index = store.state_dict()
    if damage == "missing":
        store.path.unlink()
    elif damage == "truncated":
        store.path.write_bytes(store.path.read_bytes()[:-65536])
    elif damage == "another file":
        store.path.write_bytes(b"x" * 100_000)
    else:
        change = "DELETE FROM states" if damage == "no row" else "UPDATE states SET tensors = x'00'"
        with closing(sqlite3.connect(store.path)) as database:
            database.execute(change)
            database.commit()
    other = StateStore(store.path)
    with pytest.raises(DataError, match=r"states\.sqlite: "):
        other.load_state_dict(index)
    assert other.keys() == [], "a failed load changes nothing"


def test_no_foreign_object_is_unpickled(store, tmp_path):
    put(store, "a", 1, 1)
    torch.save({"sigma": Payload(tmp_path / "executed")}, tmp_path / "state.pt")
    with closing(sqlite3.connect(store.path)) as database:
        content = (tmp_path / "state.pt").read_bytes()
        database.execute("UPDATE states SET tensors = ?", (content,))
        database.commit()
    with pytest.raises(Exception, match=r"(?i)weights.only"):
        store.get("a")
    assert not (tmp_path / "executed").exists()


def test_a_look_up_reads_when_it_is_used(store):
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
