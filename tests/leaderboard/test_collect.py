"""Finished runs are found at any depth; what cannot be read is a message."""

import toyresults

from fedseg.leaderboard.board import build_board
from fedseg.runs.run_files import read_runs


def idda(**changes):
    metrics = {"unseen/mIoU": 50.0, "seen/mIoU": 60.0}
    return toyresults.results("idda_rainy_heterogeneous", metrics, **changes)


def test_a_bad_file_is_a_message_and_the_rest_is_built(tmp_path):
    toyresults.write(tmp_path / "good", idda())
    toyresults.write(tmp_path / "deep" / "down" / "good", idda(seed=1))
    toyresults.write(tmp_path / "foreign", {"accuracy": 3})
    toyresults.write(tmp_path / "new", idda(schema_version=99))
    toyresults.write(tmp_path / "old", idda(schema_version=0))
    toyresults.write(tmp_path / "stopped", idda(completed_rounds=7, final_round=7))
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
        "new/results.json: schema_version: is 99",
        "old/results.json: schema_version: 0",
        "stopped/results.json: completed_rounds: the run is not finished, it has 7 of 1600 rounds",
    ):
        assert words in messages
    assert len(found) == 7


def test_a_run_that_was_moved_aside_is_not_read(tmp_path):
    toyresults.write(tmp_path / "run", idda())
    toyresults.write(tmp_path / "run" / "previous" / "20250101_000000", idda(seed=1))
    runs, messages = read_runs([tmp_path])
    assert [run.results.seed for run in runs] == [0] and not messages


def test_a_folder_named_twice_is_read_once(tmp_path):
    toyresults.write(tmp_path / "run", idda())
    path = tmp_path / "run"
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "history.jsonl").touch()
    runs, messages = read_runs([tmp_path, path, path / "results.json", tmp_path])
    assert len(runs) == 1 and len(messages) == 1


def test_a_linked_run_is_read_once(tmp_path):
    toyresults.write(tmp_path / "elsewhere" / "run", idda())
    (tmp_path / "work_dirs").mkdir()
    for name in ("one", "two"):
        (tmp_path / "work_dirs" / name).symlink_to(tmp_path / "elsewhere" / "run")
    runs, messages = read_runs([tmp_path / "work_dirs"])
    assert len(runs) == 1 and not messages


def test_no_run_at_all(tmp_path):
    runs, messages = read_runs([tmp_path])
    assert not runs and len(messages) == 1 and "results.json" in messages[0]
    board = build_board(runs, messages)
    assert len(board.rankings) > 90 and not board.apart
