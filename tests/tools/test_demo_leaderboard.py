"""tools/demo_leaderboard.py: data and configs belong together; the page comes of real runs."""

import sys
from pathlib import Path

import pytest
from command_line import ForkedJob

from fedseg.data_prep import demo_streets
from fedseg.runner.experiment import load_config

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(load_tool):
    return load_tool("demo_leaderboard")


def test_the_configs_read_what_the_demo_renders(demo):
    place = "splits/heterogeneous/rainy"
    methods = set()
    for names in demo.METHODS:
        config = load_config(ROOT / demo.SETTING, names, options=demo_streets.START)
        train = config.train_dataloader.dataset
        assert train.data_root == str(demo_streets.FOLDER) and train.split == f"{place}/train"
        for loader in config.val_dataloader.values():
            assert loader.dataset.data_root == str(demo_streets.FOLDER)
            assert loader.dataset.split == f"{place}/test"
        methods.add((config.algorithm.type, config.optim_wrapper.get("type")))
    assert len(methods) == len(demo.METHODS) == 3 and len(demo.SEEDS) == 2


def test_runs_become_a_page_and_are_not_made_twice(
    demo, small_config, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("fedseg.runner.sweep._start", ForkedJob)
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    monkeypatch.setattr(demo, "SETTING", small_config)
    monkeypatch.setattr(demo, "METHODS", ([],))
    monkeypatch.setattr(demo_streets, "prepare_demo_streets", lambda: None)
    monkeypatch.setattr(demo_streets, "START", ())
    monkeypatch.setattr(sys, "argv", ["demo_leaderboard.py"])
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    out, err = capsys.readouterr()
    index = tmp_path / demo.BOARD / "index.html"
    assert out.splitlines()[-1] == f"open this page in a browser: {index.as_uri()}"
    text = index.read_text()
    assert "FedASAM + SWA + SiloBN" in text and 'title="seeds 0, 1"' in text
    assert "street scenes" in err
    results = sorted((tmp_path / demo.WORK_DIR).rglob("results.json"))
    assert [path.parent.name for path in results] == ["seed0", "seed1"]
    before = [path.stat().st_mtime_ns for path in results]
    assert demo.main() == 0
    assert [path.stat().st_mtime_ns for path in results] == before
