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
    place = f"splits/{demo_streets.DISTRIBUTION}/{demo_streets.SETTING}"
    methods = set()
    for path in demo.CONFIGS:
        config = load_config(ROOT / path)
        train = config.train_dataloader.dataset
        assert train.data_root == str(demo.DATA) and train.split == f"{place}/train"
        for loader in config.val_dataloader.values():
            assert loader.dataset.data_root == str(demo.DATA)
            assert loader.dataset.split == f"{place}/test"
            assert tuple(loader.dataset.pipeline[-1].size[::-1]) == demo.IMAGE_SIZE
        methods.add((config.algorithm.type, config.optim_wrapper.get("type")))
    assert len(methods) == len(demo.CONFIGS) == 3 and len(demo.SEEDS) == 2


def test_the_demo_renders_few_small_images(demo, tmp_path, monkeypatch):
    from fedseg.data_prep import synthetic_streets

    asked = {}

    def remember(root, files, size):
        asked.update(files=list(files), size=size)

    monkeypatch.setattr(synthetic_streets, "write_idda", remember)
    demo_streets.prepare_demo_streets(tmp_path, demo.IMAGE_SIZE)
    trained = 69 * demo_streets.IMAGES_PER_CLIENT
    assert asked["size"] == demo.IMAGE_SIZE
    assert len(asked["files"]) == trained + (69 + 35) * demo_streets.TEST_IMAGES_PER_DOMAIN


def test_runs_become_a_page_and_are_not_made_twice(
    demo, small_config, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("fedseg.runner.sweep._start", ForkedJob)
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    monkeypatch.setattr(demo, "CONFIGS", (small_config,))
    monkeypatch.setattr(demo_streets, "prepare_demo_streets", lambda root, size: None)
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
