"""tools/demo.py: its data and its config belong together; a stopped demo goes on."""

import shutil
from pathlib import Path

import pytest

from fedseg.data_prep import demo_streets
from fedseg.runner.experiment import load_config, unfinished

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(load_tool):
    return load_tool("demo")


def test_the_config_reads_what_the_demo_renders(demo):
    config = load_config(ROOT / demo.CONFIG)
    train = config.train_dataloader.dataset
    place = f"splits/{demo_streets.DISTRIBUTION}/{demo_streets.SETTING}"
    assert train.type == "IDDADataset"
    assert train.split == f"{place}/train"
    for loader in config.val_dataloader.values():
        assert loader.dataset.data_root == train.data_root
        assert loader.dataset.split == f"{place}/test"
    assert not Path(train.data_root).is_absolute()
    assert (ROOT / demo.REAL_CONFIG).is_file()


def test_the_demo_renders_the_published_number_of_clients(demo, tmp_path, monkeypatch):
    from fedseg.data_prep import synthetic_streets

    asked = {}

    def remember(root, files, size):
        asked.update(root=root, files=list(files), size=size)

    monkeypatch.setattr(synthetic_streets, "write_idda", remember)
    demo_streets.prepare_demo_streets(tmp_path, demo.IMAGE_SIZE)
    demo_streets.prepare_demo_streets(tmp_path, demo.IMAGE_SIZE)  # a second time changes nothing
    assert asked["size"] == demo.IMAGE_SIZE
    trained = 69 * demo_streets.IMAGES_PER_CLIENT
    assert len(asked["files"]) == trained + (69 + 35) * demo_streets.TEST_IMAGES_PER_DOMAIN
    split = tmp_path / "splits" / demo_streets.DISTRIBUTION / demo_streets.SETTING
    assert len(list((split / "train").glob("*.json"))) >= 1


def test_only_a_stopped_run_of_the_same_config_goes_on(small_config, small_run, tmp_path):
    work_dir = tmp_path / "run"
    config = load_config(small_config, work_dir=work_dir)
    assert not unfinished(config)  # there is nothing
    shutil.copytree(small_run, work_dir)
    assert not unfinished(config)  # it is finished
    (work_dir / "results.json").unlink()
    assert unfinished(config)
    other = load_config(small_config, work_dir=work_dir, options=["train_cfg.max_rounds=7"])
    assert not unfinished(other)
    (work_dir / "checkpoints" / "round_000006.pth").write_bytes(b"cut")
    assert not unfinished(config)  # no sound checkpoint is left
