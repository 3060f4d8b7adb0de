"""``history.jsonl``: durable lines, cut-off ends, no NaN."""

import json
import os

import pytest

from fedseg.errors import DataError
from fedseg.files import digest
from fedseg.runs.history import History, plain, timeless


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


@pytest.mark.parametrize("missing", [0, 1, 10])
def test_a_run_goes_on_from_a_mark(tmp_path, missing):
    """Lines after it, and one that a kill cut, are dropped; the bytes before stay."""
    history = written(tmp_path, 1, 2)
    mark = history.state_dict()
    history.append(records(3)[0])
    whole, content = history.state_dict(), history.path.read_bytes()
    history.path.write_bytes(content[: len(content) - missing])
    again = History(history.path)
    again.load_state_dict(mark)
    again.truncate()
    assert again.read() == records(1, 2) and again.state_dict() == mark
    again.append(records(3)[0])
    assert again.path.read_bytes() == content and again.state_dict() == whole
    again.forget_last_line()
    assert again.state_dict() == mark


def test_a_run_without_a_line(tmp_path):
    history = History(tmp_path / "none")
    history.load_state_dict(History(tmp_path / "other").state_dict())
    history.truncate()
    assert not history.path.exists()


DAMAGES = {
    "cut": lambda content: content[:-1],
    "a number": lambda content: content.replace(b"1.0", b"1.1"),
    "a line's end": lambda content: content.replace(b"\n", b"\r\n", 1),
    "the file": lambda content: b"",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_changed_history_is_refused_and_nothing_is_dropped(tmp_path, name):
    history = written(tmp_path, 1, 2, 3, 4)
    damaged = DAMAGES[name](history.path.read_bytes())
    history.path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"history\.jsonl: its first \d+ bytes are not those"):
        history.check()
    assert history.path.read_bytes() == damaged


def test_a_damaged_line_does_not_end_the_history(tmp_path):
    history = written(tmp_path, 1, 2, 3)
    history.path.write_bytes(history.path.read_bytes().replace(b'"round": 2', b'"round": '))
    with pytest.raises(DataError, match=r"history\.jsonl, line 2: "):
        history.read()


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


def test_what_the_machine_did_is_in_no_checksum():
    restarted = [{**line, "seconds": {}, "restarts": ["killed"]} for line in records(1, 2)]
    assert digest(timeless(restarted)) == digest(timeless(records(1, 2)))
