"""tools/landscape.py: the command line of fedseg.curvature.landscape."""

import json
from pathlib import Path

import pytest
import toycls
import toyseg


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("landscape")
    root = toycls.write_data(folder / "data")
    config = toycls.settings(folder, root, train_cfg={"max_rounds": 2}, averaging=None)
    toyseg.train(config)
    return Path(config["work_dir"])


def test_line_between_two_rounds_and_wrong_arguments(run_tool, run, tmp_path):
    first = run / "checkpoints" / "round_000001.pth"
    options = ("--points", 3, "--out", tmp_path / "line", "--trust", "toycls")
    data = ("--data", "train", "--data", "test")  # adds up, like any option that takes several
    code, out, err = run_tool("landscape", "line", first, run, *data, *options)
    assert code == 0, err
    files = [Path(line) for line in out.split() if "landscape." in line]
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert all(file.stat().st_size > 1000 for file in files)
    content = json.loads((tmp_path / "line" / "landscape.json").read_text())
    assert content["axes"] == [[-1, 0, 0.5, 1, 2]]
    assert [series["data"] for series in content["series"]] == ["train", "test"]
    assert all(series["barrier"] >= 0 for series in content["series"])
    code, _, err = run_tool("landscape", "plane", first, run, *options)
    assert code == 2 and "CHECKPOINT" in err
    code, _, err = run_tool("landscape", "line", first, f"{run}:global", *options)
    assert code == 2 and "has no average" in err
    options = (*options, "--out", tmp_path / "client", "--samples", 5)
    code, _, err = run_tool("landscape", "random", run, "--client", "nobody", *options)
    assert code == 2 and "--client" in err and "'nobody'" in err
    assert not (tmp_path / "client").exists()
    client = next(
        iter(json.loads((run / "history.jsonl").read_text().splitlines()[-1])["participants"])
    )["client"]
    code, out, err = run_tool("landscape", "line", first, "--client", client, *options)
    assert code == 0, err
    content = json.loads((tmp_path / "client" / "landscape.json").read_text())
    assert [series["data"] for series in content["series"]] == ["own data", "all data"]
    code, out, err = run_tool("landscape", "random", first, "--client", client, *options)
    assert code == 0, err
    assert "landscape.svg" in out and "landscape.html" in out
