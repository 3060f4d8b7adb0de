"""tools/leaderboard.py: a folder of runs becomes a board, and a run is verified."""

import json
from pathlib import Path

import pytest
import toyresults


@pytest.fixture
def runs(tmp_path) -> Path:
    """Two seeds of an experiment, and a damaged file."""
    for seed in (0, 1):
        content = toyresults.idda(50.0 + seed, seed=seed)
        toyresults.write(tmp_path / "runs" / f"seed_{seed}", content)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "results.json").write_text("{")
    return tmp_path / "runs"


def test_a_folder_of_runs_becomes_a_board(run_tool, runs, tmp_path):
    code, out, err = run_tool("leaderboard", runs, "--out", tmp_path / "board")
    assert code == 0 and err == ""
    assert "50.50 ± 0.71" in out and "FedDrive published mIoU" in out
    assert "broken/results.json: is not readable" in out
    assert str(tmp_path / "board" / "leaderboard.csv") in out
    page = (tmp_path / "board" / "index.html").read_text()
    assert "50.50" in page and "broken/results.json: is not readable" in page


def test_a_run_is_verified(run_tool, run_copy, small_config):
    code, out, err = run_tool("leaderboard", "verify", run_copy, "--config", small_config)
    assert code == 0, err
    assert "values are as recorded, to the last bit" in out
    content = json.loads((run_copy / "results.json").read_text())
    content["final"]["seen"]["mIoU"] += 1
    content["versions"]["torch"] = "0.1"
    (run_copy / "results.json").write_text(json.dumps(content))
    code, out, err = run_tool("leaderboard", "verify", run_copy, "--config", small_config)
    assert code == 1 and "values are as recorded" not in out
    assert f"{run_copy}: final.seen.mIoU: results.json has" in err
    assert "not as recorded, within 0.05 percentage points (other packages)" in err


def test_a_file_is_no_folder_for_the_board(run_tool, tmp_path):
    (tmp_path / "file").write_text("kept")
    for out in ("file", "file/x"):
        code, _, err = run_tool("leaderboard", tmp_path, "--out", tmp_path / out)
        assert code == 2 and err.startswith("error: ") and f"{tmp_path}/file" in err
        assert len(err.splitlines()) == 1
        assert (tmp_path / "file").read_text() == "kept"
