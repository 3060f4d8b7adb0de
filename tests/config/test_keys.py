"""The table of keys covers what shipped configs say, and digests and comparisons filter it."""

from pathlib import Path

import pytest

from fedseg.config.compose import Composition, compose
from fedseg.config.keys import ROLES, TABLE, keep, role, row, select
from fedseg.config.layers import CONFIGS
from fedseg.errors import ConfigError
from fedseg.runner.config import KEYS, complete_config
from fedseg.runner.experiment import load_config

SETTINGS = sorted((CONFIGS / "settings").glob("*.py"))
pytestmark = pytest.mark.usefixtures("configs_read_once")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda path: path.stem)
def test_every_key_of_a_shipped_setting_has_a_row(setting: Path):
    config = complete_config(compose(setting)).to_dict()
    assert [key for key in select(config) if row(key) is None] == []


def test_every_key_that_a_method_sets_has_a_row():
    places = {
        path.stem: setting for setting in SETTINGS for path in Composition(setting).known.values()
    }
    for name in list(places):
        for setting in [places[name], *SETTINGS]:
            try:
                config = complete_config(compose(setting, [name])).to_dict()
            except ConfigError:  # it is for other settings
                continue
            assert [key for key in select(config) if row(key) is None] == [], name
            del places[name]
            break
    assert places == {}


def test_every_key_that_a_config_may_have_at_the_top_has_a_row():
    assert [key for key in KEYS if row(key) is None] == []
    assert {one.role for one in TABLE} == set(ROLES)


CONFIG = {
    "randomness": {"seed": 3, "deterministic": True},
    "train_dataloader": {
        "num_workers": 2,
        "batch_size": 16,
        "dataset": {"type": "IDDADataset", "data_root": "x", "pipeline": [{"size": (1, 2)}, "a"]},
    },
    "algorithm": {"type": "FedDyn", "alpha": 0.1},
    "optim_wrapper": {"optimizer": {"lr": 0.1, "momentum": 0.9}},
    "work_dir": "somewhere",
    "sizes": (1, 2),
}


def test_keys_are_selected_by_their_roles():
    assert select(CONFIG, "identity") == {"randomness.seed": 3}
    assert select(CONFIG, "protocol") == {
        "train_dataloader.batch_size": 16,
        "train_dataloader.dataset.type": "IDDADataset",
        "train_dataloader.dataset.pipeline.0.size": [1, 2],
        "train_dataloader.dataset.pipeline.1": "a",
    }
    assert set(select(CONFIG, "environment", "place")) == {
        "randomness.deterministic",
        "train_dataloader.num_workers",
        "train_dataloader.dataset.data_root",
        "work_dir",
    }
    assert row("sizes") is None and role("sizes") == "method"
    assert len(select(CONFIG)) == sum(len(select(CONFIG, one)) for one in ROLES)


def test_a_resumed_run_may_change_some_keys():
    fixed = select(CONFIG, resumed=True)
    assert {"randomness.seed", "algorithm.alpha", "optim_wrapper.optimizer.lr"} <= set(fixed)
    assert not {"train_cfg.max_rounds", "work_dir", "sizes"} & set(fixed)


def test_what_is_kept_stays_nested():
    assert keep(CONFIG, "method") == {
        "algorithm": CONFIG["algorithm"],
        "optim_wrapper": CONFIG["optim_wrapper"],
        "sizes": (1, 2),
    }
    assert keep(CONFIG, *ROLES) == CONFIG


def test_runs_with_and_without_an_average_share_the_rounds_before_it():
    """As docs/reproducing.md resumes them."""

    def facts(methods):
        config = complete_config(load_config("cifar10_a005", methods))
        fixed = select(config.to_dict(), resumed=True)
        return {key: value for key, value in fixed.items() if not key.startswith("averaging")}

    assert facts(["fedavg"]) == facts(["swa"]) == facts(["wima"])
    assert facts(["fedasam"]) == facts(["fedasam", "swa"]) == facts(["fedasam", "wima"])
