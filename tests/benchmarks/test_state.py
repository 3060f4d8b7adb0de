"""The benchmark of clients' states on disk."""

import pytest
from benchmarks import state as benchmark_state
from benchmarks.state import state

from fedseg.errors import DataError
from fedseg.runner.state_store import StateStore


def test_every_state_is_written_and_read(tmp_path):
    measured = state(tmp_path, clients=120, parameters=1000)
    assert measured["clients"] == 120
    assert measured["state of a client, MiB"] == 4000 / 2**20
    assert measured["states on disk, MiB"] > 120 * 4000 / 2**20
    peaks = [measured[name] for name in measured if name.startswith("peak")]
    assert peaks == sorted(peaks) and len(peaks) == 2
    assert all(measured[name] > 0 for name in measured if name.endswith("MB/s"))


def test_memory_does_not_grow(tmp_path):
    """Two hundred states of 2 MiB are 400 MiB."""
    state(tmp_path / "few", clients=10, parameters=2**19)
    measured = state(tmp_path / "many", clients=200, parameters=2**19)
    assert measured["peak memory at the end, MiB"] - measured["peak memory before, MiB"] < 40


def test_a_changed_state_is_noticed(tmp_path, monkeypatch):
    class Forgetful(StateStore):
        def look_up(self, key):
            return super().look_up("0")

    monkeypatch.setattr(benchmark_state, "StateStore", Forgetful)
    with pytest.raises(DataError, match="client 1"):
        state(tmp_path, clients=2, parameters=10)
