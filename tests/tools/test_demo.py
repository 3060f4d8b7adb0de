"""tools/demo.py: data, start and config belong together; a stopped demo goes on."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
from command_line import ForkedJob
from PIL import Image

from fedseg.data_prep import demo_streets
from fedseg.registry import MODELS, build
from fedseg.runner.config import complete_config
from fedseg.runner.experiment import load_config, unfinished

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(load_tool):
    return load_tool("demo")


def test_the_config_reads_what_the_demo_renders(demo):
    config = load_config(ROOT / demo.SETTING, demo.METHODS[1], options=demo_streets.START)
    train = config.train_dataloader.dataset
    place = "splits/heterogeneous/rainy"
    assert train.type == "IDDADataset"
    assert train.split == f"{place}/train"
    for loader in config.val_dataloader.values():
        assert loader.dataset.data_root == train.data_root
        assert loader.dataset.split == f"{place}/test"
    assert train.data_root == str(demo_streets.FOLDER)
    assert (ROOT / demo.REAL_CONFIG).is_file()


def test_the_demo_renders_the_published_number_of_clients(demo, tmp_path, monkeypatch):
    from fedseg.data_prep import synthetic_streets

    asked = {}

    def remember(data_set, root, files, size):
        assert data_set.name == "idda"
        asked.update(root=root, files=list(files), size=size)

    monkeypatch.setattr(synthetic_streets, "write_streets", remember)
    demo_streets.prepare_demo_streets(tmp_path)
    demo_streets.prepare_demo_streets(tmp_path)  # a second time changes nothing
    assert asked["size"] == (232, 128)
    assert len(asked["files"]) == 69 * 8 + 69 + 35
    split = tmp_path / "splits" / "heterogeneous" / "rainy"
    assert len(list((split / "train").glob("*.json"))) >= 1


def test_the_start_fits_the_network(demo, monkeypatch):
    """The file in the repository, read as data, has every tensor of the network."""
    monkeypatch.chdir(ROOT)
    config = complete_config(load_config(demo.SETTING, options=demo_streets.START))
    start, other = (
        build(MODELS, dict(config.model, weights=w), "model") for w in (config.model.weights, None)
    )
    for network in (start, other):
        network.init_weights()
    found = torch.load(config.model.weights.path, weights_only=True)
    for name, tensor in start.state_dict().items():
        assert torch.equal(tensor, found[name]), name
    name = "network.backbone.detail.detail_branch.0.0.conv.weight"
    assert not torch.equal(other.state_dict()[name], found[name])


def test_two_runs_become_a_table_and_a_picture(demo, small_config, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fedseg.runner.sweep._start", ForkedJob)
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    monkeypatch.setattr(demo, "SETTING", small_config)
    monkeypatch.setattr(demo, "METHODS", ([], ["fedprox"]))
    monkeypatch.setattr(demo_streets, "prepare_demo_streets", lambda: None)
    monkeypatch.setattr(demo_streets, "START", ())
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert out.count("points") == 2 and "FedProx" in out
    runs = sorted((tmp_path / demo.WORK_DIR).glob("*/seed0"))
    sizes = [Image.open(next(run.glob("pictures/seen/*.png"))).size for run in runs]
    with Image.open(tmp_path / demo.WORK_DIR / "predictions.png") as sheet:
        assert sheet.width == 2 * max(width for width, _ in sizes)


def test_only_a_stopped_run_of_the_same_config_goes_on(small_config, small_run, tmp_path):
    work_dir = tmp_path / "run"
    config = load_config(small_config, work_dir=work_dir)
    assert not unfinished(complete_config(config))  # there is nothing
    shutil.copytree(small_run, work_dir)
    assert not unfinished(complete_config(config))  # it is finished
    (work_dir / "results.json").unlink()
    assert unfinished(complete_config(config))
    other = load_config(small_config, work_dir=work_dir, options=["train_cfg.max_rounds=7"])
    assert not unfinished(complete_config(other))
    (work_dir / "checkpoints" / "round_000006.pth").write_bytes(b"cut")
    assert not unfinished(complete_config(config))  # no sound checkpoint is left
