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


@pytest.mark.parametrize("missing", [1, 5, 10])
def test_restore_then_append_heals_a_cut_line(tmp_path, missing):
    history = written(tmp_path, 1, 2, 3)
    whole, content = history.checksums, history.path.read_bytes()
    history.path.write_bytes(content[:-missing])
    history.restore(2, whole[:2])
    history.append(records(3)[0])
    assert history.path.read_bytes() == content and history.checksums == whole


def test_restore_drops_later_rounds_and_keeps_the_bytes_of_others(tmp_path):
    history = written(tmp_path, 1, 2, 3)
    content, checksums = history.path.read_bytes(), history.checksums
    again = History(history.path)
    again.restore(2, checksums[:2])
    assert content.startswith(again.path.read_bytes()) and again.read() == records(1, 2)
    assert again.checksums == checksums[:2]
    again.restore(0, [])
    assert again.read() == []
    History(tmp_path / "none").restore(0, [])
    assert not (tmp_path / "none").exists()


def without(lines, number):
    return [*lines[: number - 1], *lines[number:]]


DAMAGES = {
    "cut": lambda lines: [*lines[:2], lines[2][:9]],
    "garbage": lambda lines: [*lines[:2], b"\xff\0{\n", lines[3]],
    "too long a number": lambda lines: [*lines[:2], b"1" * 5000 + b"\n", lines[3]],
    "nested": lambda lines: [*lines[:2], b"[" * 10**5 + b"\n", lines[3]],
    "no record": lambda lines: [*lines[:2], b"3\n", lines[3]],
    "missing": lambda lines: without(lines, 3),
    "swapped": lambda lines: [*lines[:2], lines[3], lines[2]],
    "twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "empty line": lambda lines: [*lines[:2], b"\n", *lines[2:]],
    "the file ends": lambda lines: lines[:2],
}
EDITS = {
    "another number": lambda lines: [*lines[:2], lines[2].replace(b"1.0", b"1.1"), lines[3]],
    "another line's end": lambda lines: [*lines[:2], lines[2].replace(b"\n", b"\r\n"), lines[3]],
}


@pytest.mark.parametrize("name", [*DAMAGES, *EDITS])
def test_a_damaged_line_is_named_and_nothing_is_dropped(tmp_path, name):
    history = written(tmp_path, 1, 2, 3, 4)
    lines = history.path.read_bytes().splitlines(keepends=True)
    damaged = b"".join({**DAMAGES, **EDITS}[name](lines))
    assert damaged != history.path.read_bytes()
    history.path.write_bytes(damaged)
    for known in (history.checksums, None) if name in DAMAGES else (history.checksums,):
        with pytest.raises(DataError, match=r"history\.jsonl, line 3: "):
            history.restore(4, known)
        assert history.path.read_bytes() == damaged
        history.verify(2, history.checksums[:2])


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
