"""Runs as they are read: finished, stopped, damaged."""

import json

import pytest
import toyresults
from toyhistory import METRIC, record, write_history
from toyresults import RAINY, idda

from fedseg.errors import DataError
from fedseg.runs.run_files import read_run, read_runs

NEVER_EVALUATED = {"rounds": [], "bytes": [], "loss": [], "figures": {}}


def test_a_stopped_run_has_the_metrics_of_its_history(small_run, tmp_path):
    lines = (small_run / "history.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "history.jsonl").write_text("".join(lines[:4]) + lines[4][:30])
    (tmp_path / "config.json").write_text((small_run / "config.json").read_text())
    run, whole = read_run(tmp_path), read_run(small_run)
    assert (run.rounds, run.planned, run.summary.final_round, run.seed) == (4, 6, 4, 0)
    known = json.loads(lines[3])["metrics"]
    assert run.last == {name: value for name, value in known.items() if value is not None} != {}
    for name in run.last:
        assert run.series(name).items() <= whole.series(name).items()
    assert run.losses.items() <= whole.losses.items()
    assert run.results is None and whole.results is not None and whole.rounds == 6
    assert list(run.logged("norm_w").values()) == [json.loads(line)["norm_w"] for line in lines[:4]]


def test_a_file_of_another_name_is_read_alone(tmp_path):
    content = toyresults.results(RAINY, {METRIC: 50.0}, rounds=1, completed_rounds=1)
    folder = write_history(toyresults.write(tmp_path / "a", content), [record(1, 3.0)])
    copy = folder / "results_of_a_friend.json"
    copy.write_text((folder / "results.json").read_text())
    run = read_run(copy)
    kept = dict(zip(run.curves.rounds, run.curves.loss, strict=True))
    assert run.history == [] and run.losses == {r: x for r, x in kept.items() if x is not None}
    assert read_run(folder).losses == {1: 1.0}


def test_results_that_are_no_file_are_refused(small_run, tmp_path):
    (tmp_path / "history.jsonl").write_bytes((small_run / "history.jsonl").read_bytes())
    (tmp_path / "results.json").symlink_to("results.json")
    with pytest.raises(DataError, match=r"results.json: must be a file"):
        read_run(tmp_path)


def test_the_history_must_be_that_of_the_results(small_run, tmp_path):
    for name in ("results.json", "config.json"):
        (tmp_path / name).write_bytes((small_run / name).read_bytes())
    lines = (small_run / "history.jsonl").read_text().splitlines(keepends=True)
    last = json.loads(lines[-1])
    metrics = {name: 1.5 for name in last["metrics"]}
    for wrong in (
        [],
        lines[:-1],
        lines + lines[-1:],
        [*lines, json.dumps({**last, "round": len(lines) + 1, "norm_w": 12345.0})],
        [*lines, "\0"],
        lines[:2] + lines[3:],
        [*lines[:-1], json.dumps({**last, "metrics": metrics})],
        [*lines[:-1], json.dumps({**last, "norm_w": 1.0})],
    ):
        (tmp_path / "history.jsonl").write_text("".join(wrong))
        with pytest.raises(DataError, match=r"history\.jsonl"):
            read_run(tmp_path)
    (tmp_path / "history.jsonl").write_text("".join(lines))
    assert len(read_run(tmp_path).history) == len(lines)
    (tmp_path / "history.jsonl").unlink()
    assert read_run(tmp_path).history == []


def test_a_run_without_evaluation_is_read_where_nothing_is_compared(tmp_path):
    content = toyresults.results(RAINY, {}, curves=NEVER_EVALUATED)
    folder = toyresults.write(tmp_path / "a", content)
    assert read_run(folder, strict=False).summary.final_round is None
    with pytest.raises(DataError, match="final_round"):
        read_run(folder)


def test_a_wrong_history_is_refused_with_its_line(tmp_path):
    for change, field in (
        (lambda line: line.pop("bytes_up"), "bytes_up"),
        (lambda line: line.update(round=1), "round"),
        (lambda line: line.update(loss="high"), "loss"),
        (lambda line: line.update(metrics=[1]), "metrics"),
        (lambda line: line.update(bytes_up=float("nan")), "bytes_up"),
    ):
        lines = [record(1, 1.0), record(2, 2.0)]
        change(lines[1])
        write_history(tmp_path, lines)
        with pytest.raises(DataError, match=rf"history\.jsonl, line 2: {field}: "):
            read_run(tmp_path)


def test_files_of_something_else_are_refused(tmp_path):
    for content in (b"\xff\xfe\x00", b"no json", b"[1]\n", b"3\n"):
        (tmp_path / "history.jsonl").write_bytes(content)
        with pytest.raises(DataError, match=r"history\.jsonl"):
            read_run(tmp_path)
    for content in ("{", "[]", "{}"):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(DataError, match=r"results\.json"):
            read_run(tmp_path)


# ---------------------------------------------------------------- runs below folders


def test_a_bad_file_is_a_message_and_the_rest_is_built(tmp_path):
    toyresults.write(tmp_path / "good", idda())
    toyresults.write(tmp_path / "deep" / "down" / "good", idda(seed=1))
    toyresults.write(tmp_path / "foreign", {"accuracy": 3})
    toyresults.write(tmp_path / "new", idda(schema_version=99))
    toyresults.write(tmp_path / "old", idda(schema_version=0))
    toyresults.write(tmp_path / "stopped", idda(completed_rounds=7))
    damaged = toyresults.write(tmp_path / "damaged", idda()) / "results.json"
    damaged.write_text(damaged.read_text()[:99])
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "history.jsonl").write_text("")
    runs, found = read_runs([tmp_path, tmp_path / "nowhere"])
    assert sorted(run.results.seed for run in runs) == [0, 1]
    messages = "\n".join(found)
    for words in (
        f"{tmp_path / 'nowhere'}: does not exist",
        f"{tmp_path / 'running'}: the run is not finished",
        f"{damaged}: ",
        "foreign/results.json: is not a results.json of fedseg",
        "new/results.json: schema_version: must be 5, not 99: update fedseg",
        "old/results.json: schema_version: must be 5, not 0: ",
        "stopped/results.json: completed_rounds: the run is not finished, it has 7 of 1600 rounds",
    ):
        assert words in messages
    assert len(found) == 7


def test_a_folder_named_twice_is_read_once(tmp_path):
    toyresults.write(tmp_path / "run", idda())
    path = tmp_path / "run"
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "history.jsonl").touch()
    runs, messages = read_runs([tmp_path, path, path / "results.json", tmp_path])
    assert len(runs) == 1 and len(messages) == 1


def test_results_that_were_edited_are_told(tmp_path):
    folder = toyresults.write(tmp_path / "run", idda())
    content = json.loads((folder / "results.json").read_text())
    content["threads"] += 1  # what it states of itself stays
    (folder / "results.json").write_text(json.dumps(content))
    (run,), (message,) = read_runs([folder])
    assert run.results.edited and "was changed after the run wrote it" in message
