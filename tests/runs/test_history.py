"""``history.jsonl``: durable lines, cut-off ends, no NaN."""

import json
import os

import pytest

from fedseg.runs.history import History, plain


def records(*rounds):
    return [{"round": r, "loss": r / 3, "text": "Zürich\u2028x"} for r in rounds]


def written(tmp_path, *rounds) -> History:
    history = History(tmp_path / "history.jsonl")
    for record in records(*rounds):
        history.append(record)
    return history


def test_append_and_read(tmp_path):
    assert History(tmp_path / "none").read() == []
    assert written(tmp_path, 1, 2, 3).read() == records(1, 2, 3)


def test_a_checkpoint_comes_after_its_history_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(os.fstat(number).st_ino))
    history = History(tmp_path / "history.jsonl")
    history.sync()  # there is nothing
    history.append(records(1)[0])
    assert synced == []
    history.sync()
    assert synced == [history.path.stat().st_ino]


def test_every_cut_of_the_last_line_leaves_the_rest(tmp_path):
    history = written(tmp_path, 1, 2, 3)
    content = history.path.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(start, len(content) - 1):
        history.path.write_bytes(content[:cut])
        assert history.read() == records(1, 2), cut
    history.path.write_bytes(content[:-1])
    assert history.read() == records(1, 2, 3), "only the line's end is missing"


@pytest.mark.parametrize("missing", [1, 5, 10])
def test_truncate_then_append_heals_a_cut_line(tmp_path, missing):
    history = written(tmp_path, 1, 2, 3)
    history.path.write_bytes(history.path.read_bytes()[:-missing])
    history.truncate(2)
    history.append(records(3)[0])
    assert history.read() == records(1, 2, 3)
    assert len(history.path.read_text().splitlines()) == 3


def test_truncate_drops_later_rounds(tmp_path):
    history = written(tmp_path, 1, 2, 3)
    history.truncate(1)
    assert history.read() == records(1)
    history.truncate(0)
    assert history.read() == []
    History(tmp_path / "none").truncate(3)
    assert not (tmp_path / "none").exists()


def test_zero_bytes_after_a_power_loss(tmp_path):
    history = written(tmp_path, 1, 2)
    with open(history.path, "ab") as file:
        file.write(b"\0" * 100)
    assert history.read() == records(1, 2)


def test_floats_come_back_bit_for_bit(tmp_path):
    history = History(tmp_path / "h")
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    history.append({"round": 1, "values": values})
    assert list(map(repr, history.read()[0]["values"])) == list(map(repr, values))


def test_what_is_not_finite_becomes_null(tmp_path):
    history = History(tmp_path / "h")
    inf = float("inf")
    history.append({"round": 1, "loss": float("nan"), "nested": {"a": [inf, -inf, 1.0]}})
    line = history.path.read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "round": 1,
        "loss": None,
        "nested": {"a": [None, None, 1.0]},
    }
    assert plain((1, float("nan"))) == [1, None]
