"""fedseg demo: data, start and config belong together; a stopped demo goes on."""

import pytest
import torch

from fedseg.commands import demo
from fedseg.config.check import complete_config
from fedseg.data_prep import idda
from fedseg.registry import MODELS, build
from fedseg.runner.experiment import load_config


def test_the_configs_read_what_the_demo_renders():
    kinds = set()
    for names in demo.METHODS:
        config = load_config(demo.SETTING, names)
        place, train = "splits/heterogeneous/rainy", config.train_dataloader.dataset
        assert train.type == "IDDADataset" and train.split == f"{place}/train"
        assert train.data_root == str(idda.DEMO)
        for loader in config.val_dataloader.values():
            assert loader.dataset.data_root == train.data_root
            assert loader.dataset.split == f"{place}/test"
        kinds.add((config.algorithm.type, config.optim_wrapper.get("type")))
    assert len(kinds) == len(demo.METHODS)


def test_the_demo_renders_the_published_number_of_clients(tmp_path, monkeypatch):
    from fedseg.data_prep import synthetic_streets

    asked = {}

    def remember(data_set, root, files, size):
        assert data_set.name == "idda"
        asked.update(root=root, files=list(files), size=size)

    monkeypatch.setattr(synthetic_streets, "write_streets", remember)
    idda.prepare_demo_streets(tmp_path)
    idda.prepare_demo_streets(tmp_path)  # a second time changes nothing
    assert asked["size"] == (232, 128)
    assert len(asked["files"]) == 69 * 8 + 69 + 35
    split = tmp_path / "splits" / "heterogeneous" / "rainy"
    assert len(list((split / "train").glob("*.json"))) >= 1


def test_the_start_fits_the_network(tmp_path, monkeypatch):
    """The file that comes with the suite, read as data, has all but the last layer."""
    monkeypatch.chdir(tmp_path)  # it is found from anywhere
    config = complete_config(load_config("demo_weather"))
    start, other = (
        build(MODELS, dict(config.model, weights=w), "model") for w in (config.model.weights, None)
    )
    for network in (start, other):
        network.init_weights()
    found = torch.load(start._weights.path, weights_only=True)
    last = config.model.weights.ignore
    for name, tensor in start.state_dict().items():
        if not name.startswith(f"network.{last}"):
            assert torch.equal(tensor, found[name]), name
    weight = f"network.{last}weight"
    assert not torch.equal(start.state_dict()[weight], found[weight])
    name = "network.backbone.detail.detail_branch.0.0.conv.weight"
    assert not torch.equal(other.state_dict()[name], found[name])


@pytest.mark.parametrize("name", demo.DEMOS)
def test_a_wrong_key_is_told_before_anything_is_rendered(name, tmp_path, monkeypatch, run_tool):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_tool("demo", name, "--cfg-options", "train_cf.max_rounds=2")
    assert code and "did you mean 'train_cfg'" in err and not any(tmp_path.iterdir())
